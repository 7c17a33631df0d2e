-- SPDX-License-Identifier: GPL-2.0
--
-- clear: remove the task of a future run, because its schedule has changed.
--
-- ARGV: generation, name, run: see plant. The generation is the new one.
--
-- Answer: time, then
--   0	there is nothing to remove: the task is due and therefore runs, or was removed before
--   1	removed
--   2	a daemon holds it, and was told "no further attempt"; then
--	due, holder, token: for a recall

local generation, name = tonumber(ARGV[1]), ARGV[2]
local id, mark = name .. ':' .. ARGV[3], 'run:' .. name

local known = string.match(redis.call('HGET', CTL, mark) or '0 0', '^(%d+) ')
if tonumber(known) >= generation then
	return { us, 0 }
end
redis.call('HSET', CTL, mark, ARGV[1] .. ' 0')
local h = get(id)
if not h or h == NEWER or h.due <= now or h.attempts > 0 or h.lost > 0 then
	return { us, 0 }
elseif h.state == SCHEDULED then
	remove(id, h)
	return { us, 1 }
elseif h.state == LEASED then
	h.flags = h.flags - h.flags % 2 + LAST
	set(id, h)
	return { us, 2, h.due, holder_hex(h.holder), h.token }
end
return { us, 0 }
