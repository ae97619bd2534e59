/*
 * Shows where the ranks of a parallel job are, and runs a command beside one rank of each place.
 *
 *     cc -o where_tool docs/examples/where_tool.c -Imonitor-user/crates/client/capi/include -Ltarget/release -lomis
 *     ./where_tool JOB [COMMAND]
 */
#define _XOPEN_SOURCE 700
#include <omis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Ends the session too, and with it the daemons. */
static void fail(const char *why) {
    fprintf(stderr, "where_tool: %s\n", why);
    exit(1);
}

/* Requests a service of this node. Returns its results as text, which the caller frees. */
static char *results(const char *format, ...) {
    char request[2048];
    int status, at = 0;
    va_list values;
    va_start(values, format);
    int length = vsnprintf(request, sizeof request, format, values);
    va_end(values);
    if (length < 0 || length >= (int)sizeof request)
        fail("the job or the command is too long");
    char *reply = OMIS_request_block(request);
    /* A status below 100 means that the request was carried out. */
    if (!reply || sscanf(reply, "1 [0] %*[a-z_](%d%n", &status, &at) != 1 || status >= 100)
        fail(reply ? reply : "no memory");
    return memmove(reply, reply + at, strlen(reply + at) + 1);
}

/* The text within quotes, with a backslash before each quote and backslash. */
static void quote(const char *text, char *out, size_t size) {
    size_t n = 0;
    for (; *text && n + 3 < size; text++) {
        if (*text == '"' || *text == '\\')
            out[n++] = '\\';
        out[n++] = *text;
    }
    if (*text)
        fail("the command is too long");
    out[n] = 0;
}

/* The string of a list after this one, or the end of the list; the length of this one. */
static const char *next_name(const char *at, int *length) {
    const char *end = at + 1;
    while (*end && *end != '"')
        end += *end == '\\' && end[1] ? 2 : 1;
    *length = (int)(end - at - 1);
    return end + (*end == '"') + (end[0] && end[1] == ',');
}

/* Prints a list of strings from `main` on. Returns its end. */
static const char *print_path(const char *at) {
    const char *begin = at, *end = at, *next;
    int length;
    for (; *end == '"'; end = next_name(end, &length))
        if (begin == at && strncmp(end, "\"main\"", 6) == 0)
            begin = end;
    for (; begin < end; begin = next) {
        next = next_name(begin, &length);
        printf("%.*s%s", length, begin + 1, next < end ? " > " : "\n");
    }
    return end;
}

/* Prints what the command writes that the service runs beside a rank, as the user of this tool. */
static void run_beside(const char *job, int rank, const char *command) {
    char name[] = P_tmpdir "/where_tool-XXXXXX", quoted[1024], part[4096];
    const struct timespec pause = {0, 50 * 1000 * 1000};
    int file = mkstemp(name);
    long pid;
    ssize_t length;
    if (file < 0)
        fail("cannot create a file");
    quote(command, quoted, sizeof quoted);
    free(results("1 [0] start_options(\"\",[],[\"\",\"%s\",\"%s\"])", name, name));
    char *daemon = results("1 [0] job_attach(\"%.*s:%d\",\"%s\",\"process\")",
                           (int)strcspn(job, ":"), job, rank, quoted);
    if (sscanf(daemon, ",[%*d,%ld", &pid) != 1)
        fail(daemon);
    free(daemon);
    snprintf(part, sizeof part, "/proc/%ld", pid);
    while (access(part, F_OK) == 0)
        nanosleep(&pause, NULL);
    while ((length = read(file, part, sizeof part)) > 0)
        fwrite(part, 1, (size_t)length, stdout);
    close(file);
    unlink(name);
}

int main(int argc, char **argv) {
    char ranks[256];
    int rank, length;
    if (argc < 2)
        fail("usage: where_tool JOB [COMMAND]");
    char *stacks = results("1 [0] job_stacks(\"%s\",\"first\")", argv[1]);
    for (const char *at = stacks;
         sscanf(at, "%*[],[]\"%255[^\"]\",%d,%*d,[%n", ranks, &rank, &length) == 2;) {
        printf("ranks %s: ", ranks);
        at = print_path(at + length);
        if (argc > 2)
            run_beside(argv[1], rank, argv[2]);
    }
    free(stacks);
    return 0;
}
