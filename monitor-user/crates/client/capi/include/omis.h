/*
 * The interface procedures of OMIS 1.0 (On-line Monitoring Interface Specification, 5.4).
 *
 * Link with -lomis. The monitor is the daemon of this node; MONITOR_SOCKET names another socket.
 * All calls of a process are one session: stored requests and scope are its own and end with it.
 * The language is described in docs/REQUESTS.md, the services in docs/SERVICES.md.
 *
 * The printed specification lacks the prototypes; these follow its text. Both may be called from
 * any thread.
 */
#ifndef OMIS_H
#define OMIS_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sends a request, waits for its reply and returns it; the caller frees it with free().
 * Errors are replies, too: 0 [] error(201,0,"...") if the monitor does not answer.
 * Returns NULL if there is no memory.
 */
char *OMIS_request_block(const char *request);

/*
 * Sends a request and returns at once. The callback gets each of its replies, in the order in
 * which they arrive, and param; it frees the reply with free(). It runs on a thread of the library,
 * so it must not call OMIS_request_block.
 * Returns 0, or -1 if the request could not be sent: then the callback has got the reason.
 */
int OMIS_request(const char *request, void (*callback)(char *reply, void *param), void *param);

#ifdef __cplusplus
}
#endif

#endif
