// What the kernel of this machine takes for what `nostray run` cannot do without: an execve, three forks in a row, the ends of three
// processes in a row, and the end of a tree. `bench/limits` builds it as a static program and runs it.
//
// With arguments it becomes the command that they are, without forking: what one more execve takes. (A C library that asks the processor
// for its features, as glibc does, takes up to 0.2 ms of it in a virtual machine; the static nostray has one that does not.)
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KEEPERS = 3, ROUNDS = 300, TREE = 1000, TREES = 9 };
extern char **environ;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  qsort(values, count, sizeof *values, ascending);
  return values[count / 2];
}

static void wait_for_all(void) {
  while (wait(NULL) > 0 || errno == EINTR) {}
}

// Milliseconds from the start of a command to the first byte that it writes, and from there to the end of what was started. Each of so
// many processes in between forks the next one and waits for it, as front, spare and guard do.
static void start(char *const *command, int keepers, double *to_first_byte, double *to_end) {
  int out[2];
  char byte;
  if (pipe2(out, O_CLOEXEC)) exit(1);
  double begun = now();
  pid_t started = fork();
  if (started == 0) {
    // The first keeper is there. Its child is the next one, and the last one's child is the command.
    for (; keepers > 0; keepers--) {
      if (fork() > 0) {
        close(out[1]);
        wait_for_all();
        _exit(0);
      }
    }
    dup2(out[1], 1);
    execve(command[0], command, environ);
    _exit(127);
  }
  close(out[1]);
  if (read(out[0], &byte, 1) != 1) exit(1);
  *to_first_byte = now() - begun;
  double first_byte = now();
  waitpid(started, NULL, 0);
  *to_end = now() - first_byte;
  close(out[0]);
}

// A tree of so many forked processes that wait: milliseconds until all of them are ended by `signal` and reaped.
static double end_of_tree(int count, int signal) {
  pid_t members[TREE];
  for (int i = 0; i < count; i++) {
    members[i] = fork();
    if (members[i] < 0) exit(1);
    if (members[i] == 0) {
      for (;;) pause();
    }
  }
  usleep(50000);
  double begun = now();
  for (int i = 0; i < count; i++) kill(members[i], signal);
  wait_for_all();
  return now() - begun;
}

int main(int count, char **words) {
  if (count > 1) return execv(words[1], words + 1);
  char *echo[] = {"/bin/echo", "ready", NULL}, *through[] = {words[0], "/bin/echo", "ready", NULL};
  static double to_first_byte[3][ROUNDS], to_end[3][ROUNDS], trees[TREES];
  for (int i = 0; i < ROUNDS; i++) {
    for (int way = 0; way < 3; way++) {
      start(way == 1 ? through : echo, way == 2 ? KEEPERS : 0, &to_first_byte[way][i], &to_end[way][i]);
      usleep(2000);
    }
  }
  double first[3], last[3];
  for (int way = 0; way < 3; way++) {
    first[way] = median(to_first_byte[way], ROUNDS);
    last[way] = median(to_end[way], ROUNDS);
  }
  printf("| what the kernel takes here, p50 | ms |\n| --- | ---: |\n");
  printf("| /bin/echo, started directly, to its first byte | %.2f |\n", first[0]);
  printf("| one execve of a static program before it, above direct | %.2f |\n", first[1] - first[0]);
  printf("| three forks before it, above direct | %.2f |\n", first[2] - first[0]);
  printf("| the ends of these three, one after the other, above direct | %.2f |\n", last[2] - last[0]);
  const int sizes[] = {1, 10, TREE};
  for (int size = 0; size < 3; size++) {
    for (int i = 0; i < TREES; i++) trees[i] = end_of_tree(sizes[size], SIGTERM);
    printf("| %d forked processes, each ended by a signal and reaped | %.2f |\n", sizes[size], median(trees, TREES));
  }
  return 0;
}
