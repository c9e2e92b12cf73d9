/* What a call gives, or the end of the program with the line and what it gave. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>

#define EXPECT(expected, call)                                                   \
    do {                                                                         \
        long result_ = (long)(call);                                             \
        if (result_ != (long)(expected)) {                                       \
            fprintf(stderr, "line %d: %s gives %ld\n", __LINE__, #call, result_); \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

#endif
