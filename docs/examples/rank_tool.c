/*
 * Shows the CPU time of each rank of a parallel job, and its program counter.
 *
 *     cc -o rank_tool docs/examples/rank_tool.c -Imonitor-user/crates/client/capi/include -Ltarget/release -lomis
 *     ./rank_tool [JOB]                               beside the first job, or the one named
 *     monitor job attach JOB --daemon ./rank_tool     as a daemon beside each rank
 */
#include <omis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rank {
    int number;
    long pid;
    char state;
    double cpu;
};

/* Ends the session too, and with it the hold. */
static void fail(const char *why) {
    fprintf(stderr, "rank_tool: %s\n", why);
    exit(1);
}

/* Requests a service of this node. Returns its results as text, which the caller frees. */
static char *results(const char *format, ...) {
    char request[512];
    int status, at = 0;
    va_list values;
    va_start(values, format);
    int length = vsnprintf(request, sizeof request, format, values);
    va_end(values);
    if (length < 0 || length >= (int)sizeof request)
        fail("the name of the job is too long");
    char *reply = OMIS_request_block(request);
    /* A status below 100 means that the request was carried out. */
    if (!reply || sscanf(reply, "1 [0] %*[a-z_](%d,%n", &status, &at) != 1 || status >= 100)
        fail(reply ? reply : "no memory");
    return memmove(reply, reply + at, strlen(reply + at) + 1);
}

/* Reads a rank of `job_info`. Returns what follows it; NULL at the end of the list. */
static const char *next(const char *text, struct rank *rank) {
    int length = 0;
    if (text[0] == ']')
        return NULL;
    sscanf(text, "%*[,[]%d,\"%*[^\"]\",%ld,\"%*[^\"]\",\"%c\",%lf,%*f,%*d%n", &rank->number,
           &rank->pid, &rank->state, &rank->cpu, &length);
    if (length == 0)
        fail("job_info has another form here");
    return text + length;
}

int main(int argc, char **argv) {
    const char *own = getenv("MONITOR_JOB_RANK"), *program = getenv("MONITOR_JOB_PID");
    char job[256], *list, *info;
    struct rank rank;
    unsigned long pc;

    if (own && program) /* A daemon beside one rank. */
        snprintf(job, sizeof job, "%s:%s", getenv("MONITOR_JOB_ID"), own);
    else if (argc > 1)
        snprintf(job, sizeof job, "%s", argv[1]);
    else if (sscanf(list = results("1 [0] job_list()"), "[\"%255[^\"]", job) == 1)
        free(list);
    else
        fail("no parallel job is visible on this node");
    info = results("1 [0] job_info(\"%s\")", job);
    const char *ranks = strstr(info, ",[");

    for (const char *at = ranks; (at = next(at, &rank));)
        free(results("1 [0] attach([%ld])", own ? atol(program) : rank.pid));
    free(results("1 [0] job_hold(\"%s\")", job)); /* All ranks at one moment. */
    for (const char *at = ranks; (at = next(at, &rank));) {
        long pid = own ? atol(program) : rank.pid;
        char *values = results("1 [0] read_int_registers(%ld,16,1)", pid);
        if (sscanf(values, "[%lu", &pc) != 1)
            fail(values);
        printf("rank %d: process %ld %c %.2f s at %#lx\n", rank.number, pid, rank.state, rank.cpu,
               pc);
        free(values);
    }
    free(results("1 [0] job_release(\"%s\")", job));
    free(info);
    return 0;
}
