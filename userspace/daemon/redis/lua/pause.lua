-- SPDX-License-Identifier: GPL-2.0
--
-- pause: take answers "paused" from now on, or no longer.
--
-- ARGV: 1 on, 0 off
--
-- Answer: time, then
--   begun	leased tasks whose due time has come
--   held	leased tasks whose due time is ahead
--
-- Off publishes a wake with the head's due time, or with now if there is none.
--
-- Of two leases of one length, the one of a task ahead ends later. So held tasks are looked
-- for from the latest end on: 128 at a time, at most 1024, until 128 have none. held may be
-- too small, but not 0 if there is one of that length.

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
