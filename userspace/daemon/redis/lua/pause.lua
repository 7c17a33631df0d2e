-- SPDX-License-Identifier: GPL-2.0
--
-- pause: make take answer "paused" from now on, or end that.
--
-- ARGV: 1 on, 0 off
--
-- Answer: time, then
--   begun	leased tasks whose due time has come
--   held	leased tasks whose due time is still to come
--
-- Off publishes a wake with the head's due time, or with now if there is none.
--
-- Of two leases of equal length, that of a task which is not due yet ends later. So the search for
-- held tasks begins with the latest end, and looks at 128 at a time, at most 1024, until 128 contain
-- none. held may be too small, but if there is a held task with a lease of usual length, it is not 0.

local CHUNKS = 8
local leased, held = redis.call('ZCARD', RUN), 0

local function held_in(ids)
	if #ids == 0 then
		return 0
	end
	local n = 0
	for _, s in ipairs(redis.call('HMGET', HDR, unpack(ids))) do
		local h = s and unpack_header(s)
		if h and h.due > now then
			n = n + 1
		end
	end
	return n
end

redis.call('HSET', CTL, 'paused', ARGV[1])
if ARGV[1] == '0' then
	local head = first_score(DUE)
	wake(head < 0 and now or head)
end
for chunk = 0, CHUNKS - 1 do
	local n = held_in(redis.call('ZREVRANGE', RUN, chunk * BATCH, chunk * BATCH + BATCH - 1))
	held = held + n
	if n == 0 then
		break
	end
end
return { us, leased - held, held }
