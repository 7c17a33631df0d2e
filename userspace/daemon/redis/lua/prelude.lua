-- SPDX-License-Identifier: GPL-2.0
--
-- Shared by all scripts: the keys, the clock, the header, and the states.
--
-- Redis runs a script as one text: a line "#!lua" with flags, this file, the script.
-- embed.sh makes the texts.
--
-- KEYS: due run hdr body dead done note ctl, of one lane, so all have its hash tag.
-- ARGV: a flat list, which the comment of each script describes. A daemon runs the text that it
-- was built with, by its hash, so versions may differ in ARGV and answers. They have headers,
-- bodies and messages in common.
-- An answer is a list. Its first element is Redis's time in microseconds.
--
-- Times and durations are milliseconds. A holder is 16 hex digits in ARGV and answers,
-- and 8 bytes in the header. Ends that do not exist are -1.
--
-- States, as in answers: 0 scheduled, 1 leased, 2 done, 3 dead.
--
-- Header, big-endian, 64 bytes:
--
--   at  size  field
--    0     1  format     1
--    1     1  state      as above
--    2     1  flags      1: no further attempt. 2: the user asked for this run
--    3     1  late       policy: 0 run, 1 skip, 2 dead
--    4     2  attempts   that were reported
--    6     2  lost       leases that ended without a report, since the last failed attempt
--    8     2  limit      attempts in all
--   10     4  missed     periods without a run before this one
--   14     6  version    of seq, set by put
--   20     6  due        due time
--   26     6  first      due time before retries
--   32     6  token      of seq, set by take; 0: not leased
--   38     8  holder     of the take; 0: not leased
--   46     6  period     0: none
--   52     6  late_after when the task counts as late; 0: never
--   58     6  keep       how long a done task stays
--
-- If a header has another format or more bytes, a newer version stored the task. The same is true
-- if the first byte of the body, which is its format, is not 1. Such a task stays as it is, and
-- waits for that version. Its score is raised by PARKED, so that it does not stay before all other
-- tasks forever: see park().
--
-- ctl: seq, next, paused, gone, counters: orphan, lost, missed, dead; and the marks of schedules.
-- gone is 1 if the queue was removed, and then the lane refuses tasks. A mark is run:NAME, see
-- plant. next is never later than the head of due, and may be absent if there is no head.
--
-- If next becomes earlier, it is published on PREFIXwake as "QUEUE/LANE MS". The prefix is that of
-- the keys, as in PREFIX{QUEUE/LANE}:ctl.

local DUE, RUN, HDR, BODY, DEAD, DONE, NOTE, CTL = unpack(KEYS)

local SCHEDULED, LEASED, FINISHED, BURIED = 0, 1, 2, 3
local LAST, ASKED = 1, 2
local LATE_SKIP, LATE_DEAD = 1, 2
local BATCH, BYTES = 128, 1048576
local HEADER_SIZE = 64
local NOBODY = string.rep('\0', 8)
-- This is greater than every time, and its sum with a time is still an exact number.
local PARKED = 4503599627370496
-- Stands for the header of a task that a newer version stored. It has none of the known states.
local NEWER = { state = -1, due = 0 }

-- This is the only clock.
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local now = math.floor(us / 1000)

local function text(n)
	return string.format('%.0f', n)
end

local FORMAT = '>BBBBHHHI4I6I6I6I6c8I6I6I6'

local function pack(h)
	return struct.pack(FORMAT, 1, h.state, h.flags, h.late,
		h.attempts, h.lost, h.limit, h.missed, h.version, h.due, h.first, h.token,
		h.holder, h.period, h.late_after, h.keep)
end

local function format_of(s)
	return string.byte(s, 1) or 0
end

-- Returns nil for a broken header, whose task is treated as one without a header.
local function unpack_header(s)
	if format_of(s) > 1 or #s > HEADER_SIZE then
		return NEWER
	end
	if #s ~= HEADER_SIZE or string.byte(s, 1) ~= 1 or string.byte(s, 2) > BURIED then
		return nil
	end
	local h, format = {}
	format, h.state, h.flags, h.late, h.attempts, h.lost, h.limit, h.missed, h.version,
		h.due, h.first, h.token, h.holder, h.period, h.late_after, h.keep =
		struct.unpack(FORMAT, s)
	return h
end

-- Reads the headers of tasks. Each task has @fields elements of ARGV, of which the first is its id.
local function read_headers(first, fields)
	local ids, headers = {}, {}
	for i = first, #ARGV, fields do
		ids[#ids + 1] = ARGV[i]
	end
	if #ids == 0 then
		return headers
	end
	for i, s in ipairs(redis.call('HMGET', HDR, unpack(ids))) do
		headers[ids[i]] = s and unpack_header(s) or nil
	end
	return headers
end

local function get(id)
	local s = redis.call('HGET', HDR, id)
	return s and unpack_header(s)
end

-- The body of a newer version may have a header that this one knows.
local function is_newer(id, h)
	return h == NEWER or format_of(redis.call('HGET', BODY, id) or '') > 1
end

local function set(id, h)
	redis.call('HSET', HDR, id, pack(h))
end

local function is_last(h)
	return h.flags % 2 == LAST
end

local function is_asked(h)
	return h.flags >= ASKED
end

local function holder_bytes(hex)
	return struct.pack('>I4I4', tonumber(string.sub(hex, 1, 8), 16),
		tonumber(string.sub(hex, 9, 16), 16))
end

local function holder_hex(bytes)
	return string.format('%08x%08x', struct.unpack('>I4I4', bytes))
end

local function count(name, n)
	if n > 0 then
		redis.call('HINCRBY', CTL, name, n)
	end
end

local function wake(ms)
	local prefix, tag = string.match(CTL, '^(.*){(.*)}:ctl$')
	redis.call('PUBLISH', prefix .. 'wake', tag .. ' ' .. text(ms))
end

-- The value of next, once it has been read.
local next_ms

-- Makes sure that next is not later than the head.
local function announce(ms)
	if not next_ms then
		next_ms = tonumber(redis.call('HGET', CTL, 'next') or math.huge)
	end
	if ms < next_ms then
		next_ms = ms
		redis.call('HSET', CTL, 'next', text(ms))
		wake(ms)
	end
end

-- Returns the score of the element with this rank, or -1 if the rest are parked or there is none.
local function score_at(key, rank)
	local head = redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')
	local score = head[2] and tonumber(head[2]) or -1
	return score < PARKED and score or -1
end

local function first_score(key)
	return score_at(key, 0)
end

-- Returns true if @a is before @b: by bytes, as in a set, whatever the locale of Redis is.
local function is_before(a, b)
	for i = 1, math.min(#a, #b) do
		local x, y = string.byte(a, i), string.byte(b, i)
		if x ~= y then
			return x < y
		end
	end
	return #a < #b
end

-- Finds the rank of the first id after a place, with a binary search among ids of equal score.
local function rank_behind(key, score, id)
	local low = redis.call('ZCOUNT', key, '-inf', '(' .. score)
	local high = redis.call('ZCOUNT', key, '-inf', score)
	while low < high do
		local middle = math.floor((low + high) / 2)
		if is_before(id, redis.call('ZRANGE', key, middle, middle)[1]) then
			high = middle
		else
			low = middle + 1
		end
	end
	return low
end

-- The sets that contain the tasks in each state.
local SETS = { [SCHEDULED] = DUE, [LEASED] = RUN, [FINISHED] = DONE, [BURIED] = DEAD }

local function leave(id, h)
	redis.call('ZREM', SETS[h.state], id)
	h.token = 0
	h.holder = NOBODY
end

local function remove(id, h)
	redis.call('ZREM', SETS[h.state], id)
	redis.call('HDEL', HDR, id)
	redis.call('HDEL', BODY, id)
	redis.call('HDEL', NOTE, id)
end

-- Removes what is left of a task without a header or a body.
local function remove_orphan(id)
	for state = SCHEDULED, BURIED do
		redis.call('ZREM', SETS[state], id)
	end
	redis.call('HDEL', HDR, id)
	redis.call('HDEL', BODY, id)
	redis.call('HDEL', NOTE, id)
end

local function schedule(id, h, due)
	leave(id, h)
	h.state = SCHEDULED
	h.due = due
	set(id, h)
	redis.call('ZADD', DUE, due, id)
	announce(due)
end

local function bury(id, h, note)
	leave(id, h)
	h.state = BURIED
	set(id, h)
	redis.call('ZADD', DEAD, now, id)
	count('dead', 1)
	if note ~= '' then
		redis.call('HSET', NOTE, id, note)
	end
end

-- Moves to the next multiple of the period that has not passed. ran: the run of h.first took place.
local function next_period(id, h, ran)
	local steps = math.max(1, math.ceil((now - h.first) / h.period))
	local missed = steps - 1
	if not ran then
		missed = missed + h.missed + 1
	end
	h.missed = math.min(missed, 4294967295)
	h.first = h.first + steps * h.period
	h.attempts = 0
	h.lost = 0
	h.flags = 0
	schedule(id, h, h.first)
end

local function finish(id, h)
	if h.keep == 0 then
		remove(id, h)
		return
	end
	leave(id, h)
	h.state = FINISHED
	set(id, h)
	redis.call('ZADD', DONE, now + h.keep, id)
end

-- Changes the due time. A run that may have begun keeps its first due time, and so its key.
local function move(id, h, due)
	if h.attempts == 0 and h.lost == 0 then
		h.first = due
	end
	schedule(id, h, due)
end

-- Daemons of the newer version have a minute to take such a task, unless there are so many that
-- other tasks would not be seen.
local NEWER_WAIT, SKIPPED_MAX = 60000, 512

-- Puts a task of a newer version aside, unless it may stay. Returns 1 if it stays.
local function park(key, id, skipped, wait)
	local score = tonumber(redis.call('ZSCORE', key, id))
	if score >= PARKED or (score + wait > now and skipped < SKIPPED_MAX) then
		return 1
	end
	redis.call('ZADD', key, text(score + PARKED), id)
	return 0
end

-- Handles an id whose header or state does not fit the set that contains it.
local function misfit(id, h, key)
	if h then
		redis.call('ZREM', key, id)
	else
		remove_orphan(id)
	end
end
