/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The headers of a callback. No I/O.
 */
#ifndef TWHEELD_CALLBACK_HEADER_H
#define TWHEELD_CALLBACK_HEADER_H

#include <curl/curl.h>

#include "callback/request.h"
#include "callback/sign.h"

/*
 * Makes the list of headers: those of the task, then ours, which win. Returns 0,
 * -EINVAL for a header that is refused, or -ENOMEM. The caller frees *@list in
 * each case.
 */
int callback_headers(const struct callback_request *req, const struct signer *signer,
		     struct curl_slist **list);

#endif /* TWHEELD_CALLBACK_HEADER_H */
