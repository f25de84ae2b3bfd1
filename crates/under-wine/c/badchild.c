/* Badly behaved programs for Windows, and hosts that end badly. Each process has a token on its command line, by which a test finds it from
 * outside, and makes a file of its role's name in a folder once it runs, with its number inside.
 *
 *   badchild ROLE TOKEN FOLDER [ARGUMENTS]
 */
#define _WIN32_WINNT 0x0A00
#include <windows.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

static wchar_t self[MAX_PATH];
static wchar_t *token, *folder;

static void path_of(wchar_t *path, const wchar_t *name) { swprintf(path, 1024, L"%ls\\%ls", folder, name); }

/* In one step, so that a reader sees the whole of it. */
static void tell(const wchar_t *name, const wchar_t *text) {
    wchar_t path[1024], new[1024];
    path_of(path, name);
    swprintf(new, 1024, L"%ls.new%lu", path, GetCurrentProcessId());
    FILE *file = _wfopen(new, L"wb");
    if (!file) exit(90);
    fprintf(file, "%ls\n", text);
    fclose(file);
    MoveFileExW(new, path, MOVEFILE_REPLACE_EXISTING);
}

static void tell_number(const wchar_t *name, unsigned long number) {
    wchar_t text[32];
    swprintf(text, 32, L"%lu", number);
    tell(name, text);
}

static void is_up(const wchar_t *name) { tell_number(name, GetCurrentProcessId()); }

static void wait_for_file(const wchar_t *name) {
    wchar_t path[1024];
    path_of(path, name);
    while (GetFileAttributesW(path) == INVALID_FILE_ATTRIBUTES) Sleep(5);
}

static void for_ever(void) { for (;;) Sleep(60000); }

/* CreateProcess, which returns 0 or the error. While other trees are being ended, Wine 8 refuses a start now and then with its internal error:
 * Wine is not what is tested, so it is asked again. */
static DWORD create(const wchar_t *program, const wchar_t *line, BOOL inherit, DWORD flags, STARTUPINFOW *info, PROCESS_INFORMATION *made) {
    wchar_t copy[32768];
    DWORD error = 0;
    for (int attempt = 0; attempt < 5; attempt++) {
        wcscpy(copy, line);
        if (CreateProcessW(program, copy, NULL, NULL, inherit, flags, NULL, NULL, info, made)) return 0;
        error = GetLastError();
        if (error != ERROR_INTERNAL_ERROR) break;
        Sleep(20);
    }
    return error;
}

/* Starts this program in another role. Returns 0, or the error. */
static DWORD start(const wchar_t *role, const wchar_t *name, DWORD flags, PROCESS_INFORMATION *made) {
    wchar_t line[4096];
    STARTUPINFOW info = {0};
    info.cb = sizeof info;
    swprintf(line, 4096, L"\"%ls\" %ls %ls \"%ls\" %ls", self, role, token, folder, name);
    return create(self, line, FALSE, flags, &info, made);
}

static void start_or_fail(const wchar_t *role, const wchar_t *name, DWORD flags) {
    PROCESS_INFORMATION made;
    DWORD error = start(role, name, flags, &made);
    if (error) { tell_number(L"failed", error); exit(91); }
}

/* A child with every kind of descendant that might stay behind. */
static void tree(void) {
    PROCESS_INFORMATION made;
    start_or_fail(L"sleep", L"grandchild", 0);
    start_or_fail(L"sleep", L"detached", DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP);
    start_or_fail(L"sleep", L"new-console", CREATE_NEW_CONSOLE);
    start_or_fail(L"spawner", L"orphan", CREATE_NO_WINDOW);
    /* A job of its own, which it may end or not. */
    HANDLE job = CreateJobObjectW(NULL, NULL);
    DWORD error = start(L"sleep", L"nested", CREATE_SUSPENDED, &made);
    if (!error && !AssignProcessToJobObject(job, made.hProcess)) error = GetLastError();
    if (!error) ResumeThread(made.hThread);
    if (error) { tell_number(L"failed", error); exit(92); }
    error = start(L"sleep", L"escaped", CREATE_BREAKAWAY_FROM_JOB, &made);
    tell_number(L"breakaway", error);
    is_up(L"child");
    for_ever();
}

/* Starts one process after the other, which end at once. Whenever it is ended, it is likely to be inside of CreateProcess. */
static void storm(void) {
    for (int count = 0;; count++) {
        PROCESS_INFORMATION made;
        DWORD error = start(L"exit", L"0", DETACHED_PROCESS, &made);
        if (error) { tell_number(L"failed", error); exit(93); }
        CloseHandle(made.hThread);
        CloseHandle(made.hProcess);
        if (!count) is_up(L"storm");
    }
}

/* NtSuspendProcess or NtResumeProcess: no documented call stops a whole process. */
static int stop_or_go(const char *call, unsigned long number) {
    LONG (NTAPI *act)(HANDLE) = (LONG (NTAPI *)(HANDLE))(void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), call);
    HANDLE process = OpenProcess(PROCESS_SUSPEND_RESUME, FALSE, number);
    return act && process && act(process) >= 0;
}

/* The number of the front of this token whose record says that it is starting, or 0. */
static unsigned long starting_front(void) {
    wchar_t records[1024], path[2048], wanted[256];
    char text[65536], session[256];
    WIN32_FIND_DATAW entry;
    DWORD length, number = 0;
    swprintf(wanted, 256, L"\"session\":\"%ls\"", token);
    wcstombs(session, wanted, sizeof session);
    if (!GetEnvironmentVariableW(L"LOCALAPPDATA", records, 1000)) exit(90);
    swprintf(path, 2048, L"%ls\\nostray\\*.json", records);
    HANDLE list = FindFirstFileW(path, &entry);
    if (list == INVALID_HANDLE_VALUE) return 0;
    do {
        swprintf(path, 2048, L"%ls\\nostray\\%ls", records, entry.cFileName);
        HANDLE file = CreateFileW(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
        if (file == INVALID_HANDLE_VALUE) continue;
        if (ReadFile(file, text, sizeof text - 1, &length, NULL)) {
            text[length] = 0;
            const char *front = strstr(text, "\"front\":{\"pid\":");
            if (front && strstr(text, session) && strstr(text, "{\"name\":\"starting\"}")) number = strtoul(front + 15, NULL, 10);
        }
        CloseHandle(file);
    } while (!number && FindNextFileW(list, &entry));
    FindClose(list);
    return number;
}

/* Stops the front of this token while it starts its child. */
static int freeze(void) {
    unsigned long number;
    is_up(L"freezer");
    while (!(number = starting_front())) Sleep(0);
    if (!stop_or_go("NtSuspendProcess", number)) return 90;
    /* Stopped: its record stays what it is. */
    if (starting_front() == number) tell_number(L"frozen", number);
    else { stop_or_go("NtResumeProcess", number); tell(L"frozen", L"too late"); }
    return 0;
}

static const char *hex = "0123456789abcdef";

/* Prints the arguments as the C runtime has made them, a line each, in hexadecimal UTF-16. */
static int print_arguments(int count, wchar_t **arguments, const wchar_t *to) {
    FILE *file = _wfopen(to, L"wb");
    if (!file) return 93;
    for (int at = 0; at < count; at++) {
        for (wchar_t *unit = arguments[at]; *unit; unit++)
            for (int shift = 12; shift >= 0; shift -= 4) fputc(hex[(*unit >> shift) & 15], file);
        fputc('\n', file);
    }
    fclose(file);
    return 0;
}

/* What follows " -- " on this process's own command line, as it stands there. */
static wchar_t *rest_of_line(void) {
    wchar_t *rest = wcsstr(GetCommandLineW(), L" -- ");
    if (!rest) exit(94);
    return rest + 4;
}

/* A host: starts the rest of its command line with pipes, and behaves as it is told to. */
static int host(const wchar_t *mode) {
    SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, TRUE};
    HANDLE reader, writer, out_reader, out_writer;
    PROCESS_INFORMATION made;
    STARTUPINFOW info = {0};
    DWORD code, flags = wcsstr(mode, L"no-console") ? CREATE_NO_WINDOW : 0;
    wchar_t line[32768];
    if (!CreatePipe(&reader, &writer, &inherited, 0) || !CreatePipe(&out_reader, &out_writer, &inherited, 0)) return 95;
    SetHandleInformation(writer, HANDLE_FLAG_INHERIT, 0);
    SetHandleInformation(out_reader, HANDLE_FLAG_INHERIT, 0);
    HANDLE event = CreateEventW(&inherited, TRUE, FALSE, NULL);
    info.cb = sizeof info;
    info.dwFlags = STARTF_USESTDHANDLES;
    info.hStdInput = reader;
    info.hStdOutput = out_writer;
    info.hStdError = GetStdHandle(STD_ERROR_HANDLE);
    if (wcsstr(mode, L"handle")) swprintf(line, 32768, L"%ls %llu", rest_of_line(), (unsigned long long)(UINT_PTR)event);
    else wcscpy(line, rest_of_line());
    DWORD error = create(NULL, line, TRUE, flags, &info, &made);
    if (error) { tell_number(L"failed", error); return 96; }
    CloseHandle(reader);
    CloseHandle(out_writer);
    tell_number(L"front", made.dwProcessId);
    is_up(L"host");
    if (wcsstr(mode, L"exits")) {
        wait_for_file(L"go");
        return 0;
    }
    if (wcsstr(mode, L"talks")) {
        /* What is written comes back, and the end of input ends the child. */
        char buffer[64] = {0};
        DWORD moved = 0, total = 0;
        WriteFile(writer, "hello\n", 6, &moved, NULL);
        while (total < 6 && ReadFile(out_reader, buffer + total, 6 - total, &moved, NULL) && moved) total += moved;
        CloseHandle(writer);
        BOOL more = ReadFile(out_reader, buffer + 32, 8, &moved, NULL);
        wchar_t text[64];
        swprintf(text, 64, L"%.5hs then %ls", buffer, !more && GetLastError() == ERROR_BROKEN_PIPE ? L"the end" : L"more");
        tell(L"said", text);
    }
    if (wcsstr(mode, L"reads")) {
        /* The child closes its output and lives on: the end must be seen meanwhile. */
        char buffer[8];
        DWORD moved;
        BOOL more = ReadFile(out_reader, buffer, 8, &moved, NULL);
        tell(L"said", !more && GetLastError() == ERROR_BROKEN_PIPE ? L"the end" : L"more");
        wait_for_file(L"go");
        return 0;
    }
    if (wcsstr(mode, L"closes")) {
        wait_for_file(L"go");
        CloseHandle(writer);
    }
    WaitForSingleObject(made.hProcess, INFINITE);
    GetExitCodeProcess(made.hProcess, &code);
    tell_number(L"event", WaitForSingleObject(event, 0) == WAIT_OBJECT_0);
    tell_number(L"code", code);
    if (wcsstr(mode, L"again")) {
        /* A host that wants its child back. */
        STARTUPINFOW plain = {0};
        plain.cb = sizeof plain;
        if (create(NULL, rest_of_line(), FALSE, 0, &plain, &made)) return 97;
        tell_number(L"second-front", made.dwProcessId);
        WaitForSingleObject(made.hProcess, INFINITE);
    }
    return 0;
}

int wmain(int count, wchar_t **arguments) {
    GetModuleFileNameW(NULL, self, MAX_PATH);
    if (count >= 3 && !wcscmp(arguments[1], L"argv")) return print_arguments(count - 3, arguments + 3, arguments[2]);
    if (count < 4) return 99;
    const wchar_t *role = arguments[1], *name = count > 4 ? arguments[4] : role;
    token = arguments[2];
    folder = arguments[3];
    if (!wcscmp(role, L"tree")) tree();
    if (!wcscmp(role, L"storm")) storm();
    if (!wcscmp(role, L"sleep")) { is_up(name); for_ever(); }
    if (!wcscmp(role, L"spawner")) { start_or_fail(L"sleep", name, DETACHED_PROCESS); return 0; }
    if (!wcscmp(role, L"exit")) return (int)wcstoul(name, NULL, 0);
    if (!wcscmp(role, L"crash")) {
        SetErrorMode(SEM_NOGPFAULTERRORBOX);
        *(volatile int *)0 = 1;
        return 0;
    }
    if (!wcscmp(role, L"leaver")) {
        start_or_fail(L"sleep", L"detached", DETACHED_PROCESS);
        wait_for_file(L"detached");
        return 5;
    }
    if (!wcscmp(role, L"echo")) {
        char buffer[256];
        DWORD moved, written;
        while (ReadFile(GetStdHandle(STD_INPUT_HANDLE), buffer, sizeof buffer, &moved, NULL) && moved)
            WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), buffer, moved, &written, NULL);
        return 3;
    }
    if (!wcscmp(role, L"mute")) {
        CloseHandle(GetStdHandle(STD_OUTPUT_HANDLE));
        is_up(name);
        for_ever();
    }
    if (!wcscmp(role, L"set")) return SetEvent((HANDLE)(UINT_PTR)wcstoull(arguments[count - 1], NULL, 10)) ? 0 : 7;
    if (!wcscmp(role, L"kill")) {
        HANDLE process = OpenProcess(PROCESS_TERMINATE, FALSE, wcstoul(name, NULL, 10));
        return process && TerminateProcess(process, 9) ? 0 : 98;
    }
    if (!wcscmp(role, L"freeze")) return freeze();
    if (!wcscmp(role, L"thaw")) return stop_or_go("NtResumeProcess", wcstoul(name, NULL, 10)) ? 0 : 98;
    if (!wcscmp(role, L"where")) {
        wchar_t directory[1024], value[1024] = L"";
        GetCurrentDirectoryW(1024, directory);
        GetEnvironmentVariableW(L"NOSTRAY_TEST", value, 1024);
        tell(L"directory", directory);
        tell(L"variable", value);
        tell(L"called", arguments[0]);
        return 0;
    }
    if (!wcscmp(role, L"alone")) {
        /* Where two of these live at once, the second one finds the file taken. */
        wchar_t path[1024];
        path_of(path, L"only");
        HANDLE file = CreateFileW(path, GENERIC_WRITE, 0, NULL, OPEN_ALWAYS, 0, NULL);
        if (file == INVALID_HANDLE_VALUE) tell_number(L"twice", GetLastError());
        is_up(name);
        for_ever();
    }
    if (!wcscmp(role, L"host")) return host(name);
    return 99;
}
