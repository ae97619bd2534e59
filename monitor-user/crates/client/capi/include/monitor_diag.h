/* Unusual events, for libraries and programs that continue despite them.
 *
 *     MONITOR_DIAG(srq_full, "adding buffers in the SRQ", 1000, 60);
 *
 * marks a place at which something unusual happens. While it is not watched it costs one NOP of
 * one byte and no data. With `diag_watch` the monitor counts it in the kernel, and reports it when
 * it has occurred at least `count` times and at most once every `delay` seconds, and once more at
 * the end of the process. Both numbers are constants, the event is an identifier, the message a
 * string without `%`, `{`, `"` and backslash.
 *
 *     MONITOR_DIAG_TIMES(dropped, "messages were dropped", 1000, 60, n_dropped);
 *
 * represents `times` events, any number of 0 or more, known when the place is reached: a count
 * that a library keeps itself, or events that occur together. It also costs loading the number
 * into a register.
 *
 * The place is a SystemTap note (section .note.stapsdt, provider monitor_diag), which perf and
 * bpftrace read, too; the message is a note of the monitor (.note.monitor).
 */
#ifndef MONITOR_DIAG_H
#define MONITOR_DIAG_H

#if defined(__x86_64__) && defined(__ELF__) && (defined(__GNUC__) || defined(__clang__))

/* The place and its notes; `more` are further arguments of the probe. */
#define MONITOR_DIAG_PLACE(event, message, more)                            \
        "990:\tnop\n"                                                       \
        ".pushsection .note.stapsdt,\"?\",\"note\"\n"                       \
        ".balign 4\n"                                                       \
        ".4byte 992f-991f, 994f-993f, 3\n"                                  \
        "991:\t.asciz \"stapsdt\"\n"                                        \
        "992:\t.balign 4\n"                                                 \
        "993:\t.8byte 990b\n"                                               \
        ".8byte _.stapsdt.base\n"                                           \
        ".8byte 0\n"                                                        \
        ".asciz \"monitor_diag\"\n"                                         \
        ".asciz \"" event "\"\n"                                            \
        ".asciz \"4@$%c0 4@$%c1" more "\"\n"                                \
        "994:\t.balign 4\n"                                                 \
        ".popsection\n"                                                     \
        ".pushsection .note.monitor,\"?\",\"note\"\n"                       \
        ".balign 4\n"                                                       \
        ".4byte 996f-995f, 998f-997f, 1\n"                                  \
        "995:\t.asciz \"monitor\"\n"                                        \
        "996:\t.balign 4\n"                                                 \
        "997:\t.8byte 990b\n"                                               \
        ".asciz \"" message "\"\n"                                          \
        "998:\t.balign 4\n"                                                 \
        ".popsection\n"                                                     \
        ".ifndef _.stapsdt.base\n"                                          \
        ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
        ".weak _.stapsdt.base\n"                                            \
        ".hidden _.stapsdt.base\n"                                          \
        "_.stapsdt.base:\t.space 1\n"                                       \
        ".size _.stapsdt.base, 1\n"                                         \
        ".popsection\n"                                                     \
        ".endif\n"

#define MONITOR_DIAG(event, message, count, delay)                          \
    __asm__ __volatile__(MONITOR_DIAG_PLACE(#event, message, "")            \
        : : "n"((int)(count)), "n"((int)(delay)))

/* The number is in the register of a function's first argument, where the kernel reads it. */
#define MONITOR_DIAG_TIMES(event, message, count, delay, times)             \
    __asm__ __volatile__(MONITOR_DIAG_PLACE(#event, message, " 8@%%rdi")    \
        : : "n"((int)(count)), "n"((int)(delay)), "D"((long)(times)))

#else

/* Not supported here. */
#define MONITOR_DIAG(event, message, count, delay) ((void)sizeof((count) + (delay)))
#define MONITOR_DIAG_TIMES(event, message, count, delay, times)             \
    ((void)(times), MONITOR_DIAG(event, message, count, delay))

#endif
#endif
