-- SPDX-License-Identifier: GPL-2.0
--
-- put: create or replace tasks.
--
-- ARGV: lane-max, then for each task ten:
--   id
--   if-exists	0 replace, 1 keep, 2 fail
--   relative	0: time is absolute. 1: time counts from now
--   time
--   limit	attempts in all
--   period	0: none
--   late_after	0: never
--   late	0 run, 1 skip, 2 dead
--   keep	how long a done task stays
--   body
--
-- Answer: time, then for each task eight, as a list:
--   result	0 created, 1 replaced, 2 kept, 3 exists, 4 the lane is full
--   due	of the task that is there now; 0 if there is none
--   version	of it; 0 if there is none
--   state	of it
--   leased	1: the task that was replaced was leased
--   holder	of that lease, if leased is 1; else empty
--   token	of that lease, or 0
--   was_due	due time of the replaced task, or 0
--
-- A leased task that was canceled will be gone soon, so keep and fail replace it.
-- Without allow-oom Redis refuses this script before its first write.

local max = tonumber(ARGV[1])
local answer = { us }
-- Tasks in the lane.
local tasks = redis.call('HLEN', HDR)

local function create(i, id, due)
	local h = {
		state = SCHEDULED, flags = 0, attempts = 0, lost = 0, missed = 0, token = 0,
		holder = NOBODY, due = due, first = due,
		limit = tonumber(ARGV[i + 4]),
		period = tonumber(ARGV[i + 5]),
		late_after = tonumber(ARGV[i + 6]),
		late = tonumber(ARGV[i + 7]),
		keep = tonumber(ARGV[i + 8]),
		version = redis.call('HINCRBY', CTL, 'seq', 1),
	}
	set(id, h)
	redis.call('HSET', BODY, id, ARGV[i + 9])
	redis.call('ZADD', DUE, due, id)
	announce(due)
	return h.version
end

local function put(i)
	local id, if_exists = ARGV[i], tonumber(ARGV[i + 1])
	local due = tonumber(ARGV[i + 3]) + (ARGV[i + 2] == '1' and now or 0)
	local old = get(id)
	if not old then
		if tasks >= max then
			return { 4, 0, 0, 0, 0, '', 0, 0 }
		end
		tasks = tasks + 1
		return { 0, due, create(i, id, due), SCHEDULED, 0, '', 0, 0 }
	end
	if if_exists ~= 0 and not (old.state == LEASED and is_last(old)) then
		return { 1 + if_exists, old.due, old.version, old.state, 0, '', 0, 0 }
	end
	redis.call('ZREM', SETS[old.state], id)
	redis.call('HDEL', NOTE, id)
	local version = create(i, id, due)
	if old.state == LEASED then
		return { 1, due, version, SCHEDULED, 1, holder_hex(old.holder), old.token, old.due }
	end
	return { 1, due, version, SCHEDULED, 0, '', 0, old.due }
end

for i = 2, #ARGV, 10 do
	answer[#answer + 1] = put(i)
end
return answer
