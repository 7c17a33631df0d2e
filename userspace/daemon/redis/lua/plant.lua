-- SPDX-License-Identifier: GPL-2.0
--
-- plant: make the task of a run of a schedule, only once.
--
-- ARGV: generation, name, run, lane-max, due, limit, late_after, late, keep, body
--   run	the time of the run in the calendar, ms. The task has the id NAME:RUN
--
-- Answer: time, then
--   0 made, 1 it was made before, 2 the lane knows a newer generation, which follows, 3 the lane is
--   full, 4 a task of a newer version has the id, 5 the queue was removed
--
-- The mark of a schedule is the field "run:NAME" of ctl: the latest generation in this lane, and
-- the latest run that it made here. Runs come in order, so each is made once, even if its task has
-- run and is gone. The marks of removed schedules stay, one for each lane and name. If a task has
-- the id but is not a future run, it does not change.

local generation, name, run = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local id, mark = name .. ':' .. ARGV[3], 'run:' .. name
local due = tonumber(ARGV[5])

if redis.call('HGET', CTL, 'gone') then
	return { us, 5 }
end
local known, last = string.match(redis.call('HGET', CTL, mark) or '0 0', '^(%d+) (%d+)$')
known, last = tonumber(known), tonumber(last)
if known > generation then
	return { us, 2, known }
elseif known == generation and last >= run then
	return { us, 1 }
end

local old = get(id)
if old == NEWER then
	return { us, 4 }
elseif not old and redis.call('HLEN', HDR) >= tonumber(ARGV[4]) then
	return { us, 3 }
end
redis.call('HSET', CTL, mark, ARGV[1] .. ' ' .. ARGV[3])
-- If the task was canceled for this generation, and no attempt has begun, it counts as gone.
local ends = old and old.state == LEASED and is_last(old) and old.due > now
if old and old.state ~= SCHEDULED and not ends then
	return { us, 0 }
end
if old then
	leave(id, old)
end
local h = { state = SCHEDULED, flags = 0, late = tonumber(ARGV[8]), attempts = 0, lost = 0,
	limit = tonumber(ARGV[6]), missed = 0, version = redis.call('HINCRBY', CTL, 'seq', 1),
	due = due, first = due, token = 0, holder = NOBODY, period = 0,
	late_after = tonumber(ARGV[7]), keep = tonumber(ARGV[9]) }
set(id, h)
redis.call('HSET', BODY, id, ARGV[10])
redis.call('HDEL', NOTE, id)
redis.call('ZADD', DUE, due, id)
announce(due)
return { us, 0 }
