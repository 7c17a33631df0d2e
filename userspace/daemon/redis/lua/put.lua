-- SPDX-License-Identifier: GPL-2.0
--
-- put: create or replace tasks.
--
-- ARGV: lane-max, then for each task four:
--   id
--   time
--   settings	seven numbers, separated by spaces:
--	if-exists	0 replace, 1 keep, 2 fail, 3 update
--	relative	0: time is absolute. 1: time counts from now
--	limit		attempts in all
--	period		0: none
--	late_after	0: never
--	late		0 run, 1 skip, 2 dead
--	keep		how long a done task stays
--   body
--
-- Answer: time, then for each task that was created its version; it is due when it was asked for.
-- For each other task, a list of eight:
--   result	1 replaced, 2 kept, 3 exists, 4 the lane is full, 5 a task of a newer version is
--		there, 6 updated, 7 the queue was removed
--   due	of the task that is there now; 0 if there is none
--   version	of it; 0 if there is none
--   state	of it
--   leased	1: the task that was replaced or updated was leased
--   holder	of that lease, if leased is 1; else empty
--   token	of that lease, or 0
--   was_due	due time of the replaced task, or 0
--
-- Without a task this does nothing, but shows if Redis would accept the script.
--
-- A leased task that was canceled will be gone soon, so keep and fail replace it, as update does.
-- update changes a scheduled or leased task, but neither its due time nor the first due time from
-- which its periods count. It replaces a done or dead task, which has no run to come. A run that
-- may have begun keeps its version, and therefore its key.
-- Because this has no allow-oom, Redis refuses it before its first write if memory is exhausted.

-- Each command, argument and element of an answer costs more than what is done with it. So one
-- command reads all headers, a few commands at the end write everything, and settings that several
-- tasks have in common are only parsed once.

local max = tonumber(ARGV[1])
local FIELDS = 4
local answer = { us }
-- Number of tasks in the lane.
local tasks = redis.call('HLEN', HDR)
local ctl = redis.call('HMGET', CTL, 'seq', 'gone')
local seq, gone = tonumber(ctl[1] or 0), ctl[2]

-- What has to be written, and the number of tasks that are created.
local set_headers, set_bodies, set_due, no_notes, created = {}, {}, {}, {}, 0
-- Number of versions that were given, and the versions of created tasks.
local given, versions = 0, {}
local earliest = math.huge

-- For a task that this script has created, this contains its number instead.
local headers = read_headers(2, FIELDS)

local function header_of(id)
	local h = headers[id]
	if type(h) == 'number' then
		return { state = SCHEDULED, due = tonumber(set_due[2 * h - 1]), version = versions[h] }
	end
	return h
end

local function next_version()
	given = given + 1
	return seq + given
end

-- Caches what follows from the text of settings. A header is begin, version, due, first, rest.
local known = {}

local function learn(text)
	local if_exists, relative, limit, period, late_after, late, keep =
		string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
	local header = struct.pack(FORMAT, 1, SCHEDULED, 0, late, 0, 0, limit, 0, 0, 0, 0, 0, NOBODY,
		period, late_after, keep)
	known[text] = { if_exists = tonumber(if_exists), relative = relative == '1',
		begin = string.sub(header, 1, 14), rest = string.sub(header, 33),
		limit = tonumber(limit), period = tonumber(period), late = tonumber(late),
		late_after = tonumber(late_after), keep = tonumber(keep) }
	return known[text]
end

local function create(id, s, due, body)
	created = created + 1
	local version, ms, n = next_version(), tonumber(due), 2 * created
	headers[id], versions[created] = created, version
	set_headers[n - 1], set_headers[n] = id,
		s.begin .. struct.pack('>I6I6I6', version, ms, ms) .. s.rest
	set_bodies[n - 1], set_bodies[n] = id, body
	set_due[n - 1], set_due[n] = due, id
	earliest = math.min(earliest, ms)
	return version
end

local function update(id, s, h, body)
	if h.state == SCHEDULED and h.attempts == 0 and h.lost == 0 then
		h.version = next_version()
	end
	h.limit, h.period, h.late, h.late_after, h.keep =
		s.limit, s.period, s.late, s.late_after, s.keep
	set(id, h)
	redis.call('HSET', BODY, id, body)
	if h.state == LEASED then
		return { 6, h.due, h.version, LEASED, 1, holder_hex(h.holder), h.token, h.due }
	end
	return { 6, h.due, h.version, SCHEDULED, 0, '', 0, h.due }
end

local function put(i)
	if gone then
		return { 7, 0, 0, 0, 0, '', 0, 0 }
	end
	local id, due, text = ARGV[i], ARGV[i + 1], ARGV[i + 2]
	local s = known[text] or learn(text)
	if s.relative then
		due = now + due
	end
	local old = header_of(id)
	if not old then
		if tasks >= max then
			return { 4, 0, 0, 0, 0, '', 0, 0 }
		end
		tasks = tasks + 1
		return create(id, s, due, ARGV[i + 3])
	end
	if type(headers[id]) == 'table' and is_newer(id, old) then
		return { 5, 0, 0, 0, 0, '', 0, 0 }
	end
	local ends = old.state == LEASED and is_last(old)
	if s.if_exists == 3 then
		if type(headers[id]) == 'number' then
			-- This script has created the task.
			due = set_due[2 * headers[id] - 1]
		elseif not ends and (old.state == SCHEDULED or old.state == LEASED) then
			return update(id, s, old, ARGV[i + 3])
		end
	elseif s.if_exists ~= 0 and not ends then
		return { 1 + s.if_exists, old.due, old.version, old.state, 0, '', 0, 0 }
	end
	if old.state ~= SCHEDULED then
		redis.call('ZREM', SETS[old.state], id)
	end
	no_notes[#no_notes + 1] = id
	local version = create(id, s, due, ARGV[i + 3])
	due = tonumber(due)
	if old.state == LEASED then
		return { 1, due, version, SCHEDULED, 1, holder_hex(old.holder), old.token, old.due }
	end
	return { 1, due, version, SCHEDULED, 0, '', 0, old.due }
end

local function write()
	if given > 0 then
		redis.call('HINCRBY', CTL, 'seq', given)
	end
	if created == 0 then
		return
	end
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
