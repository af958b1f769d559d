/* SPDX-License-Identifier: MIT */
#include "../unit.h"

#include "base/vec.h"

/* Too large a request is an error to get back, not one to die of. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
        return "allocator_may_return_null=1";
}

struct wide {
        uint64_t a;
        char b[50];
};

static void elements_are_zeroed_and_stay(void **state)
{
        GF_VEC(struct wide) vec = { 0 };
        struct wide *w;

        (void)state;
        for (size_t i = 0; i < 5000; i++) {
                w = gf_vec_add(&vec);
                if (!w) {
                        fail();
                        return;
                }
                assert_int_equal(w->a, 0);
                assert_int_equal(w->b[49], 0);
                w->a = i;
                memset(w->b, 0xff, sizeof(w->b));
        }
        assert_int_equal(vec.n, 5000);
        for (size_t i = 0; i < 5000; i++)
                assert_int_equal(vec.v[i].a, i);
        vec.n = 10; /* shortened and grown again: zeroed again */
        w = gf_vec_add(&vec);
        assert_true(w && w->a == 0);
        gf_vec_done(&vec);
        assert_null(vec.v);
        assert_int_equal(vec.n, 0);
        assert_int_equal(vec.cap, 0);
        gf_vec_done(&vec);
}

static void growing_too_far_leaves_the_old_alone(void **state)
{
        size_t cap = 0;
        void *v, *grown;

        (void)state;
        v = gf_vec_grow(NULL, &cap, 0, 16);
        assert_non_null(v);
        assert_true(cap >= 1);
        assert_ptr_equal(gf_vec_grow(v, &cap, 0, 16), v); /* there is room */
        cap = SIZE_MAX / 2;
        grown = gf_vec_grow(v, &cap, SIZE_MAX / 2, 16);
        assert_null(grown);
        assert_int_equal(cap, SIZE_MAX / 2);
        cap = SIZE_MAX / 8;
        grown = gf_vec_grow(v, &cap, SIZE_MAX / 8, 64); /* the product overflows */
        assert_null(grown);
        free(v);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(elements_are_zeroed_and_stay),
                cmocka_unit_test(growing_too_far_leaves_the_old_alone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
