/* Rows of half precision in single: gathered and widened in one pass. */

#include "steps.h"

#include <string.h>

/* A half's bits moved into place are its value times 2^-112. */
WIDE static void widen(const uint16_t *restrict halves, float *restrict out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = halves[i], value = (bits & 0x7FFFu) << 13, raised;
        float number;
        memcpy(&number, &value, sizeof number);
        number *= 0x1p112f;
        memcpy(&raised, &number, sizeof raised);
        raised |= (bits & 0x8000u) << 16;
        memcpy(out + i, &raised, sizeof raised);
    }
}

void widen_rows(const uint16_t *halves, const int64_t *rows, float *out, int64_t n, int64_t d)
{
    for (int64_t i = 0; i < n; i++)
        widen(halves + (rows ? rows[i] : i) * d, out + i * d, d);
}
