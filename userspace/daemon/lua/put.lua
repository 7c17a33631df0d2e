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

-- Headers are read by one command, and all is written by a few at the end: a command costs
-- more than what it does. So an id that comes twice finds its own header in the table.

local max = tonumber(ARGV[1])
local FIELDS = 10
local answer = { us }
-- Tasks in the lane.
local tasks = redis.call('HLEN', HDR)
local seq = tonumber(redis.call('HGET', CTL, 'seq') or 0)

-- What is to be written, and how many tasks are created.
local set_headers, set_bodies, set_due, no_notes, created = {}, {}, {}, {}, 0
local earliest = math.huge

-- The headers by id.
local function read_headers()
	local ids, headers = {}, {}
	for i = 2, #ARGV, FIELDS do
		ids[#ids + 1] = ARGV[i]
	end
	for i, s in ipairs(redis.call('HMGET', HDR, unpack(ids))) do
		headers[ids[i]] = s and unpack_header(s) or nil
	end
	return headers
end

local headers = read_headers()

local function create(i, id, due)
	created = created + 1
	local version, n = seq + created, 2 * created
	headers[id] = { state = SCHEDULED, due = due, version = version }
	-- pack() without its table. limit is at 4 from the id, then period, late_after, late, keep.
	set_headers[n - 1], set_headers[n] = id, struct.pack(FORMAT, 1, SCHEDULED, 0, ARGV[i + 7],
		0, 0, ARGV[i + 4], 0, version, due, due, 0, NOBODY, ARGV[i + 5], ARGV[i + 6],
		ARGV[i + 8])
	set_bodies[n - 1], set_bodies[n] = id, ARGV[i + 9]
	set_due[n - 1], set_due[n] = due, id
	earliest = math.min(earliest, due)
	return version
end

local function put(i)
	local id, if_exists = ARGV[i], tonumber(ARGV[i + 1])
	local due = tonumber(ARGV[i + 3]) + (ARGV[i + 2] == '1' and now or 0)
	local old = headers[id]
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
	if old.state ~= SCHEDULED then
		redis.call('ZREM', SETS[old.state], id)
	end
	no_notes[#no_notes + 1] = id
	local version = create(i, id, due)
	if old.state == LEASED then
		return { 1, due, version, SCHEDULED, 1, holder_hex(old.holder), old.token, old.due }
	end
	return { 1, due, version, SCHEDULED, 0, '', 0, old.due }
end

local function write()
	if created == 0 then
		return
	end
	redis.call('HINCRBY', CTL, 'seq', created)
	redis.call('HSET', HDR, unpack(set_headers))
	redis.call('HSET', BODY, unpack(set_bodies))
	redis.call('ZADD', DUE, unpack(set_due))
	if #no_notes > 0 then
		redis.call('HDEL', NOTE, unpack(no_notes))
	end
	announce(earliest)
end

for i = 2, #ARGV, FIELDS do
	answer[#answer + 1] = put(i)
end
write()
return answer
