/* Conversion of float16 rows to float32, gathered and converted in one pass. */

#include "steps.h"

#include <string.h>

/* The bits of a float16, shifted to the fields of a float32, are its value times 2^-112. */
WIDE static void convert(const uint16_t *restrict values, float *restrict out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = values[i], value = (bits & 0x7FFFu) << 13, result;
        float number;
        memcpy(&number, &value, sizeof number);
        number *= 0x1p112f;
        memcpy(&result, &number, sizeof result);
        result |= (bits & 0x8000u) << 16;
        memcpy(out + i, &result, sizeof result);
    }
}

void float16_rows(const uint16_t *matrix, const int64_t *rows, float *out, int64_t n, int64_t d)
{
    for (int64_t i = 0; i < n; i++)
        convert(matrix + (rows ? rows[i] : i) * d, out + i * d, d);
}
