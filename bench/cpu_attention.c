/* Bytes of KV per second that one thread attends to, by AVX2: for the part of MoE-Gen's attention that a CPU does.
 *
 *   gcc -O3 -mavx2 -mfma -o cpu_attention bench/cpu_attention.c -lm && ./cpu_attention
 *
 * Grouped-query attention of one token over 640 tokens of bfloat16 KV for each of 64 requests (more than a cache), heads
 * of 128, as Mixtral's: 8 KV heads with 4 queries each. Seconds are the thread's own, the best of 20 rounds.
 */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REQUESTS = 64, TOKENS = 640, KEYS = 8, QUERIES = 4, WIDTH = 128, ROUNDS = 20 };

static __m256 wide(const uint16_t *at) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)at)), 16));
}

static float total(__m256 x) {
    float each[8], sum = 0;
    _mm256_storeu_ps(each, x);
    for (int i = 0; i < 8; i++) sum += each[i];
    return sum;
}

static void attend(const uint16_t *key, const uint16_t *value, const float *query, float *out) {
    static float weight[TOKENS];
    for (int head = 0; head < KEYS * QUERIES; head++) {
        const float *q = query + head * WIDTH;
        const size_t from = (size_t)(head / QUERIES) * WIDTH;
        float sum = 0;
        for (int t = 0; t < TOKENS; t++) {
            const uint16_t *k = key + (size_t)t * KEYS * WIDTH + from;
            __m256 dot = _mm256_setzero_ps();
            for (int i = 0; i < WIDTH; i += 8) dot = _mm256_fmadd_ps(wide(k + i), _mm256_loadu_ps(q + i), dot);
            sum += weight[t] = expf(total(dot) / sqrtf(WIDTH));
        }
        __m256 found[WIDTH / 8];
        for (int i = 0; i < WIDTH / 8; i++) found[i] = _mm256_setzero_ps();
        for (int t = 0; t < TOKENS; t++) {
            const uint16_t *v = value + (size_t)t * KEYS * WIDTH + from;
            const __m256 part = _mm256_set1_ps(weight[t] / sum);
            for (int i = 0; i < WIDTH / 8; i++) found[i] = _mm256_fmadd_ps(wide(v + 8 * i), part, found[i]);
        }
        for (int i = 0; i < WIDTH / 8; i++) _mm256_storeu_ps(out + head * WIDTH + 8 * i, found[i]);
    }
}

int main(void) {
    const size_t each = (size_t)TOKENS * KEYS * WIDTH, all = REQUESTS * each;
    uint16_t *kv = malloc(2 * all * sizeof *kv);
    float query[KEYS * QUERIES * WIDTH], out[KEYS * QUERIES * WIDTH], kept = 0;
    for (size_t i = 0; i < 2 * all; i++) kv[i] = (uint16_t)(0x3c00 + rand() % 256);
    for (int i = 0; i < KEYS * QUERIES * WIDTH; i++) query[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec a, b;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        for (int r = 0; r < REQUESTS; r++) attend(kv + r * each, kv + all + r * each, query, out), kept += out[r];
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        const double seconds = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
        if (seconds < best) best = seconds;
    }
    printf("%.2f GB/s of KV a thread (%g)\n", 2.0 * (double)all * sizeof *kv / best / 1e9, kept);
    return 0;
}
