#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks the policy of the daemon's page, and that it permits nothing more than needed.

  page_test.py        prints TAP
  page_test.py --fix  sets the hashes in the policy of page.html
"""
import base64
import hashlib
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[3] / "userspace/daemon/http/page.html"
COUNT = 0
FAILURES = 0


def ok(good, name):
    """Print one line of TAP."""
    global COUNT, FAILURES
    COUNT += 1
    FAILURES += not good
    print("%sok %d - %s" % ("" if good else "not ", COUNT, name))


def hash_of(page, tag):
    """Return: the hash of the only element with this name, as a policy contains it."""
    (text,) = re.findall("<%s>(.*?)</%s>" % (tag, tag), page, re.S)
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def fix(page):
    """Return: the page with the right hashes."""
    page = re.sub(r"style-src '[^']*'", "style-src '%s'" % hash_of(page, "style"), page)
    return re.sub(r"script-src '[^']*'", "script-src '%s'" % hash_of(page, "script"), page)


def main():
    """Check or fix the page."""
    page = PAGE.read_text()
    if sys.argv[1:] == ["--fix"]:
        PAGE.write_text(fix(page))
        return 0
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1)
    script = re.search("<script>(.*?)</script>", page, re.S).group(1)
    ok("default-src 'none'" in policy, "the policy allows nothing by default")
    ok("unsafe" not in policy and "*" not in policy, "the policy has no exception")
    ok("style-src '%s'" % hash_of(page, "style") in policy, "the hash of the style is right")
    ok("script-src '%s'" % hash_of(page, "script") in policy, "the hash of the script is right")
    ok(not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(",
                     script), "text never becomes HTML")
    ok(not re.search(r"\bon\w+=|\bstyle=|javascript:", page), "no handler or style stands in a tag")
    ok(not re.search(r"\b(src|href)=|url\(|@import|https?://", page), "no resource is outside")
    ok("localStorage" not in script and "cookie" not in script, "the token is not stored")
    ids = set(re.findall(r'\bid="([^"]*)"', page))
    used = set(re.findall(r'\$\("([^"]*)"\)', script))
    ok(used <= ids, "each element that the script uses is there")
    print("1..%d" % COUNT)
    return FAILURES != 0


if __name__ == "__main__":
    sys.exit(main())
