// What the kernel of this machine takes for what `nostray run` cannot do without: an execve, three forks in a row, the ends of these
// processes in a row, the end of a tree, and the removal of a file. `bench/limits` builds it as a static program, and runs it as
// `limits measure [NOSTRAY [TINI]]`. With programs, they are measured in the same rounds.
//
// `limits exec COMMAND` becomes the command: what one more execve takes. (A C library that asks the processor for its features, as glibc
// does, takes up to 0.2 ms of it in a virtual machine; the static nostray has one that does not.)
// `limits keepers COMMAND` is the least that a pen can be: three processes around the command, the innermost of which gives SIGTERM to
// what the command leaves behind and reaps it. No record, no control group, no graces, no proof against anything.
// `limits tree COUNT` is a tree whose first process ends with its input, and whose others wait for a signal.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KEEPERS = 3, STARTS = 300, FILES = 50, MOST_WAYS = 5, MOST_TIMES = 300 };
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

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static pid_t forked(void) {
  pid_t pid = fork();
  if (pid < 0) fail("fork");
  return pid;
}

static void become(char *const *command) {
  execve(command[0], command, environ);
  fail(command[0]);
}

static void wait_for_all(void) {
  while (wait(NULL) > 0 || errno == EINTR) {}
}

// SIGTERM to every child of this process.
static void end_children(void) {
  FILE *list = fopen("/proc/thread-self/children", "r");
  int pid;
  if (!list) fail("/proc/thread-self/children");
  while (fscanf(list, "%d", &pid) == 1) kill(pid, SIGTERM);
  fclose(list);
}

static int keep(char *const *command) {
  for (int keeper = 1; keeper <= KEEPERS; keeper++) {
    if (keeper == KEEPERS) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    pid_t inner = forked();
    if (inner > 0) {
      // Nothing of the command's input and output stays open here.
      close(0);
      close(1);
      if (waitpid(inner, NULL, 0) != inner) fail("waitpid");
      if (keeper == KEEPERS) {
        end_children();
        wait_for_all();
      }
      return 0;
    }
  }
  become(command);
  return 1;
}

static int be_tree(int count) {
  char byte;
  for (int i = 1; i < count; i++) {
    if (forked() == 0) {
      close(0);
      close(1);
      for (;;) pause();
    }
  }
  if (write(1, "r", 1) != 1) fail("write");
  while (read(0, &byte, 1) > 0) {}
  return 0;
}

// Milliseconds from the start of a command to the first byte that it writes.
static double start(char *const *command) {
  int in[2], out[2];
  char byte;
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) fail("pipe");
  double begun = now();
  pid_t started = forked();
  if (started == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    become(command);
  }
  close(in[0]);
  close(out[1]);
  if (read(out[0], &byte, 1) != 1) fail("first byte");
  double time = now() - begun;
  waitpid(started, NULL, 0);
  close(in[1]);
  close(out[0]);
  return time;
}

// A host starts the command, which is a tree or a tree in keepers: milliseconds from the host's SIGKILL until the command has ended.
static double end(char *const *command) {
  int in[2], out[2], number[2];
  char byte;
  pid_t started;
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(number, O_CLOEXEC)) fail("pipe");
  pid_t host = forked();
  if (host == 0) {
    pid_t started = forked();
    if (started == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      become(command);
    }
    if (write(number[1], &started, sizeof started) != sizeof started) fail("write");
    for (;;) pause();
  }
  close(in[0]);
  close(in[1]);
  close(out[1]);
  if (read(number[0], &started, sizeof started) != sizeof started || read(out[0], &byte, 1) != 1) fail("the command");
  close(number[0]);
  close(number[1]);
  // Wrappers tidy up a moment after the start.
  usleep(50000);
  double begun = now();
  kill(host, SIGKILL);
  // With the host's end it becomes a child of this process.
  waitpid(host, NULL, 0);
  while (waitpid(started, NULL, 0) < 0 && errno == EINTR) {}
  double time = now() - begun;
  close(out[0]);
  return time;
}

// Milliseconds to remove a file of one page that the disk has, as the record of a child is.
static double remove_file(void) {
  static const char page[1500];
  const char *path = "target/limits-file";
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0 || write(file, page, sizeof page) != sizeof page || fsync(file)) fail(path);
  close(file);
  double begun = now();
  unlink(path);
  return now() - begun;
}

static void head(const char *what, int count, char *const names[]) {
  printf("\n| %s |", what);
  for (int way = 0; way < count; way++) printf(" %s |", names[way]);
  printf("\n| --- |");
  for (int way = 0; way < count; way++) printf(" ---: |");
  printf("\n");
}

int main(int count, char **words) {
  const char *mode = count > 1 ? words[1] : "";
  if (!strcmp(mode, "exec") && count > 2) become(words + 2);
  if (!strcmp(mode, "keepers") && count > 2) return keep(words + 2);
  if (!strcmp(mode, "tree") && count == 3) return be_tree(atoi(words[2]));
  if (strcmp(mode, "measure")) return 2;
  char *self = words[0], *nostray = count > 2 ? words[2] : NULL, *tini = count > 3 ? words[3] : NULL;
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  static double times[MOST_WAYS][MOST_TIMES];

  char *direct[] = {"/bin/echo", "ready", NULL}, *exec[] = {self, "exec", "/bin/echo", "ready", NULL},
       *keepers[] = {self, "keepers", "/bin/echo", "ready", NULL},
       *in_nostray[] = {nostray, "run", "--", "/bin/echo", "ready", NULL},
       *in_tini[] = {tini, "-s", "--", "/bin/echo", "ready", NULL};
  char *const *starts[] = {direct, exec, keepers, in_nostray, in_tini};
  char *const names[] = {"direct", "one more execve", "an execve and three forks", "nostray run", "tini"};
  int ways = 3 + (nostray != NULL) + (tini != NULL);
  for (int i = 0; i < STARTS; i++) {
    for (int way = 0; way < ways; way++) {
      times[way][i] = start(starts[way]);
      // What its keepers do a moment after the start does not fall into the next one's.
      usleep(way == 3 ? 30000 : 2000);
    }
  }
  head("start of /bin/echo to its first byte, p50", ways, names);
  double first[MOST_WAYS];
  for (int way = 0; way < ways; way++) first[way] = median(times[way], STARTS);
  printf("| ms |");
  for (int way = 0; way < ways; way++) printf(" %.2f |", first[way]);
  printf("\n| above direct |");
  for (int way = 0; way < ways; way++) printf(" %.2f |", first[way] - first[0]);
  printf("\n");

  char *const end_names[] = {"three keepers, and nothing else", "nostray run"};
  head("host killed to the end of keepers and tree, p50 ms", 1 + (nostray != NULL), end_names);
  const struct { char *size; int times; } trees[] = {{"1", 51}, {"10", 51}, {"1000", 9}};
  for (int tree = 0; tree < 3; tree++) {
    char *bare[] = {self, "keepers", self, "tree", trees[tree].size, NULL},
         *in_pen[] = {nostray, "run", "--", self, "tree", trees[tree].size, NULL};
    for (int i = 0; i < trees[tree].times; i++) {
      times[0][i] = end(bare);
      if (nostray) times[1][i] = end(in_pen);
    }
    printf("| %s processes |", trees[tree].size);
    for (int way = 0; way < 1 + (nostray != NULL); way++) printf(" %.2f |", median(times[way], trees[tree].times));
    printf("\n");
  }

  for (int i = 0; i < FILES; i++) times[0][i] = remove_file();
  double middle = median(times[0], FILES);
  printf("\n| removal of a file that the disk has | p50 | least |\n| --- | ---: | ---: |\n| ms | %.2f | %.2f |\n", middle, times[0][0]);
  return 0;
}
