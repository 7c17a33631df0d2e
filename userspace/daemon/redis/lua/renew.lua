-- SPDX-License-Identifier: GPL-2.0
--
-- renew: move the ends of leases to max(now, due) + lease.
--
-- ARGV: holder, lease, then for each task two:
--   id
--   token
--
-- Answer: time, then for each task one of:
--   0 held, 1 stale, 2 held, and canceled: no further attempt

local HELD, STALE, CANCELED = 0, 1, 2
local holder, lease = holder_bytes(ARGV[1]), tonumber(ARGV[2])
local answer = { us }
local headers = read_headers(3, 2)

local function renew(id, token)
	local h = headers[id]
	if not h or h.state ~= LEASED or h.token ~= token or h.holder ~= holder then
		return STALE
	end
	redis.call('ZADD', RUN, math.max(now, h.due) + lease, id)
	return is_last(h) and CANCELED or HELD
end

for i = 3, #ARGV, 2 do
	answer[#answer + 1] = renew(ARGV[i], tonumber(ARGV[i + 1]))
end
return answer
