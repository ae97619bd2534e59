/*
 * A tool in C: asks how many nodes there are, and is told of every process that ends.
 *
 *     cc -o omis docs/examples/omis.c -Imonitor-user/include -Ltarget/release -lomis
 *     ./omis [COUNT]
 *
 * Ends after COUNT occurrences, 3 if nothing is said.
 */
#include <omis.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct left {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int replies;
};

/* Prints a reply and counts it. */
static void print(char *reply, void *param) {
    struct left *left = param;
    puts(reply ? reply : "no memory");
    fflush(stdout);
    free(reply);
    pthread_mutex_lock(&left->lock);
    left->replies--;
    pthread_cond_signal(&left->changed);
    pthread_mutex_unlock(&left->lock);
}

/* Sends a request and prints its reply. */
static void ask(const char *request) {
    char *reply = OMIS_request_block(request);
    puts(reply ? reply : "no memory");
    fflush(stdout);
    free(reply);
}

int main(int argc, char **argv) {
    struct left left = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    /* One more for the definition. */
    left.replies = 1 + (argc > 1 ? atoi(argv[1]) : 3);

    ask("1 [] number_of_nodes()");
    if (OMIS_request("2 [] process_terminated([]): 3 [$0] print(\"ended\",$1)", print, &left) != 0)
        return 1;
    ask("4 [] enable(2)");

    pthread_mutex_lock(&left.lock);
    while (left.replies > 0)
        pthread_cond_wait(&left.changed, &left.lock);
    pthread_mutex_unlock(&left.lock);
    return 0;
}
