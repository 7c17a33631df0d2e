-- SPDX-License-Identifier: GPL-2.0
--
-- look: read tasks, without changing anything.
--
-- ARGV: "counts"
-- Answer: time, then
--   scheduled, leased, done, dead	tasks in each state
--   oldest	due time of the first scheduled task, or -1
--   paused	1: the queue is paused
--   60 s, 60 min, 24 h	scheduled tasks that are due within this time
--
-- ARGV: "get", id
-- Answer: time, then the task, if there is one, or -2 if a newer version stored it.
--
-- ARGV: "list", set, limit, and perhaps score, id
--   set	due, run, done or dead
--   limit	at most 1000 are listed
--   score, id	continue after this place, even if its task is gone
-- Answer: time, then a list of how many ids were looked at, and the place of the last of them;
-- then the tasks, in the order of the set, with -2 for a task that a newer version stored. Bodies
-- are left out after 1 MiB.
--
-- A task is a list of sixteen:
--   id, state, due, first, version, attempts, lost, limit
--   begun	1: leased, and its due time has come
--   score	of its set: leased: end of the lease. done: end of the retention. dead: when it
--		died. scheduled: 0
--   period, late_after, late, keep
--   note	empty: none
--   body	empty: left out

local size = 0

local function view(id, score)
	local h = get(id)
	if not h then
		return nil
	elseif h == NEWER then
		return -2
	end
	local body = ''
	if size < BYTES then
		body = redis.call('HGET', BODY, id) or ''
		size = size + #body
	end
	if format_of(body) > 1 then
		return -2
	end
	if h.state == SCHEDULED then
		score = 0
	end
	return { id, h.state, h.due, h.first, h.version, h.attempts, h.lost, h.limit,
		(h.state == LEASED and h.due <= now) and 1 or 0, tonumber(score), h.period,
		h.late_after, h.late, h.keep, redis.call('HGET', NOTE, id) or '', body }
end

local function look_counts()
	local due = redis.call('ZCARD', DUE)
	local function within(ms)
		return due > 0 and redis.call('ZCOUNT', DUE, '-inf', now + ms) or 0
	end
	return { us, due, redis.call('ZCARD', RUN), redis.call('ZCARD', DONE),
		redis.call('ZCARD', DEAD), first_score(DUE),
		redis.call('HGET', CTL, 'paused') == '1' and 1 or 0,
		within(60000), within(3600000), within(86400000) }
end

local function look_get(id)
	local h = get(id)
	if h and is_newer(id, h) then
		return { us, -2 }
	end
	return { us, h and view(id, redis.call('ZSCORE', SETS[h.state], id) or 0) or nil }
end

local function look_list(set, limit, score, id)
	local key = ({ due = DUE, run = RUN, done = DONE, dead = DEAD })[set]
	local from = score and rank_behind(key, score, id) or 0
	local found = redis.call('ZRANGE', key, from, from + math.min(limit, 1000) - 1, 'WITHSCORES')
	local answer = { us, { #found / 2, found[#found], found[#found - 1] } }
	for i = 1, #found, 2 do
		answer[#answer + 1] = view(found[i], found[i + 1])
	end
	return answer
end

if ARGV[1] == 'counts' then
	return look_counts()
elseif ARGV[1] == 'get' then
	return look_get(ARGV[2])
end
return look_list(ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5])
