/* SPDX-License-Identifier: MIT */
/* http:// with a few lines of our own; https:// through libcurl, which is loaded when it is needed. */
#include "guard/http.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/num.h"
#include "guard/probe.h"

static bool is_plain(const char *url)
{
        return strncasecmp(url, "http://", 7) == 0;
}

int gf_http_split(const char *url, char **ret_host, char **ret_port, char **ret_path)
{
        _cleanup_free_ char *host = NULL, *port = NULL, *path = NULL;
        const char *at, *end, *colon;

        if (!is_plain(url))
                return -EINVAL;
        at = url + 7;
        end = at + strcspn(at, "/?#");
        if (memchr(at, '@', (size_t)(end - at)) || end == at)
                return -EINVAL;
        if (*at == '[') {
                const char *close = memchr(at, ']', (size_t)(end - at));

                if (!close || (close + 1 != end && close[1] != ':'))
                        return -EINVAL;
                host = strndup(at + 1, (size_t)(close - at - 1));
                colon = close + 1 == end ? NULL : close + 1;
        } else {
                colon = memchr(at, ':', (size_t)(end - at));
                host = strndup(at, (size_t)((colon ? colon : end) - at));
        }
        port = colon ? strndup(colon + 1, (size_t)(end - colon - 1)) : strdup("80");
        path = gf_asprintf("%s%.*s", *end == '/' ? "" : "/", (int)strcspn(end, "#"), end);
        if (!host || !port || !path)
                return -ENOMEM;
        if (host[0] == '\0' || port[0] == '\0')
                return -EINVAL;
        for (const char *c = url; *c; c++)
                if ((unsigned char)*c <= ' ' || *c == 0x7f)
                        return -EINVAL;
        *ret_host = TAKE(host);
        *ret_port = TAKE(port);
        *ret_path = TAKE(path);
        return 0;
}

int gf_http_check(struct gf_env *env, const char *url)
{
        _cleanup_free_ char *host = NULL, *port = NULL, *path = NULL;

        if (strncasecmp(url, "https://", 8) == 0) {
#if GF_WITH_CURL
                void *curl = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);

                if (curl) {
                        (void)dlclose(curl);
                        return 0;
                }
                return gf_fail(env, -EINVAL, "--ready-url: https needs libcurl (libcurl.so.4), which is not installed");
#else
                return gf_fail(env, -EINVAL, "--ready-url: https is not in this build (meson setup -Dcurl=enabled)");
#endif
        }
        if (gf_http_split(url, &host, &port, &path) < 0)
                return gf_fail(env, -EINVAL, "--ready-url: \"%s\" is no URL (like http://127.0.0.1:8000/health)", url);
        return 0;
}

static int get_plain(const char *url, int ms)
{
        _cleanup_free_ char *host = NULL, *port = NULL, *path = NULL, *request = NULL;
        _cleanup_close_ int fd = -1;
        char answer[64];
        size_t n = 0;
        uint32_t status;
        int r = gf_http_split(url, &host, &port, &path);

        if (r < 0)
                return r;
        fd = gf_probe_connect(host, port, ms);
        if (fd < 0)
                return fd;
        request = gf_asprintf("GET %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nUser-Agent: gpufree\r\nAccept: */*\r\n"
                              "Connection: close\r\n\r\n",
                              path, strchr(host, ':') ? "[" : "", host, strchr(host, ':') ? "]" : "", port);
        if (!request)
                return -ENOMEM;
        if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
                return -errno;
        /* "HTTP/1.1 200 OK": the rest does not matter. */
        while (n < sizeof(answer) - 1) {
                ssize_t k = recv(fd, answer + n, sizeof(answer) - 1 - n, 0);

                if (k < 0)
                        return -errno;
                if (k == 0)
                        break;
                n += (size_t)k;
                if (memchr(answer, '\n', n))
                        break;
        }
        answer[n] = '\0';
        if (!gf_startswith(answer, "HTTP/1.") || n < 12 || answer[8] != ' ')
                return -EBADMSG;
        answer[12] = '\0';
        return gf_parse_u32(answer + 9, &status) < 0 ? -EBADMSG : (int)status;
}

#if GF_WITH_CURL
/* The few of libcurl's names that are used; their numbers have been the same since 2000. */
#define CURLOPT_URL 10002
#define CURLOPT_WRITEFUNCTION 20011
#define CURLOPT_NOSIGNAL 99
#define CURLOPT_TIMEOUT_MS 155
#define CURLINFO_RESPONSE_CODE 0x200002

static size_t drop(char *data, size_t size, size_t n, void *userdata)
{
        (void)data;
        (void)userdata;
        return size * n;
}

static int get_curl(const char *url, int ms)
{
        void *lib = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL), *curl;
        void *(*init)(void);
        int (*setopt)(void *, int, ...), (*perform)(void *), (*getinfo)(void *, int, ...);
        long status = 0;

        if (!lib)
                return -ENOSYS;
        *(void **)&init = dlsym(lib, "curl_easy_init");
        *(void **)&setopt = dlsym(lib, "curl_easy_setopt");
        *(void **)&perform = dlsym(lib, "curl_easy_perform");
        *(void **)&getinfo = dlsym(lib, "curl_easy_getinfo");
        if (!init || !setopt || !perform || !getinfo)
                return -ENOSYS;
        curl = init();
        if (!curl || setopt(curl, CURLOPT_URL, url) != 0 || setopt(curl, CURLOPT_TIMEOUT_MS, (long)ms) != 0 ||
            setopt(curl, CURLOPT_NOSIGNAL, 1L) != 0 || setopt(curl, CURLOPT_WRITEFUNCTION, drop) != 0)
                return -EINVAL;
        if (perform(curl) != 0 || getinfo(curl, CURLINFO_RESPONSE_CODE, &status) != 0)
                return -EIO;
        return (int)status; /* in a child that ends now: nothing is freed */
}
#else
static int get_curl(const char *url, int ms)
{
        (void)url;
        (void)ms;
        return -ENOSYS;
}
#endif

int gf_http_get(const char *url, int ms)
{
        return is_plain(url) ? get_plain(url, ms) : get_curl(url, ms);
}
