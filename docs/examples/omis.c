/*
 * A tool in C: requests the number of nodes, and gets a callback when its user event is raised.
 *
 *     cc -o omis docs/examples/omis.c -Imonitor-user/crates/client/capi/include -Ltarget/release -lomis -pthread
 *     ./omis [COUNT]
 *
 * Raises the event COUNT times (default 3), and exits when all replies have arrived.
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

/* Prints a reply, which the caller owns and must free. */
static void print(char *reply) {
    puts(reply ? reply : "no memory");
    free(reply);
}

/* Called with each reply to a request, on a thread of the library. */
static void heard(char *reply, void *param) {
    struct left *left = param;
    print(reply);
    pthread_mutex_lock(&left->lock);
    left->replies--;
    pthread_cond_signal(&left->changed);
    pthread_mutex_unlock(&left->lock);
}

int main(int argc, char **argv) {
    struct left left = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    int count = argc > 1 ? atoi(argv[1]) : 3;
    char raise[64];

    print(OMIS_request_block("0 [] number_of_nodes()"));
    print(OMIS_request_block("1 [] define_user_event(7)"));

    /* One reply for the definition, and one for each time. */
    left.replies = 1 + count;
    if (OMIS_request("2 [0] user_event(7): 3 [0] print($1)", heard, &left) != 0)
        return 1;
    print(OMIS_request_block("4 [0] enable(2)"));
    for (int i = 1; i <= count; i++) {
        snprintf(raise, sizeof raise, "%d [0] raise_event(7,[%d])", 4 + i, i);
        print(OMIS_request_block(raise));
    }

    pthread_mutex_lock(&left.lock);
    while (left.replies > 0)
        pthread_cond_wait(&left.changed, &left.lock);
    pthread_mutex_unlock(&left.lock);
    return 0;
}
