-- SPDX-License-Identifier: GPL-2.0
--
-- take: lease the tasks that are due, earliest first.
--
-- ARGV: limit, lease, holder, ahead, and of a queue with limits five more:
--   rate	tasks in each period; 0: no such limit
--   per	the period, microseconds
--   burst	tasks at once, after a pause
--   concurrency	leases at once; 0: no such limit
--   lanes	number of lanes that share these limits, all on this node. 0: only this lane
--
-- Takes tasks with due <= now + ahead, at most limit, at most 128, and at most 1 MiB of
-- bodies. The lease ends at max(now, due) + lease.
--
-- Answer: time, then
--   paused	1: the lane gives nothing
--   next	due time of the head that is left, or -1
--   lease_end	earliest end of a lease, or -1
--   missed	tasks and periods that were skipped
--   dead	tasks that were buried because they were late
--   orphans	ids that were removed because they had no header or no body
--   newer	tasks of a newer version, which were left alone
--   held	1 or 2: the rate or the concurrency holds back tasks that are due; otherwise 0
--   wait	if the rate holds back tasks: milliseconds until it lets some through
-- then for each task eight, as a list:
--   id
--   token
--   attempt	1, 2, 3 ...
--   due
--   first	due time before retries
--   version
--   missed	periods without a run before this one
--   body
--
-- A task is late if now > first + late_after before its first attempt. A task that a user
-- ran or replayed is never late. A late task with a period goes on with its next multiple.

local limit = math.min(tonumber(ARGV[1]), BATCH)
local lease, ahead = tonumber(ARGV[2]), tonumber(ARGV[4])
local holder = holder_bytes(ARGV[3])
-- Number of bodies that are read at once. More might be read in vain.
local CHUNK = 16
local ITEM = 128
-- Maximum number of tasks of a newer version that are looked at, in addition to a batch.
local SCAN = 1024

local answer = { us, 0, -1, -1, 0, 0, 0, 0, 0, 0 }
local missed, dead, orphans, newer = 0, 0, 0, 0
-- Number of tasks of a newer version that stay before all others.
local skipped = 0
local taken, size = {}, 0

-- The rate is a bucket of tokens. ctl of the first lane stores a single number for it, tat: the time
-- at which the bucket will be full, in microseconds. Each task postpones that by an interval (GCRA).
-- Leases are counted in their lanes, so nothing has to be updated when one ends.
local rate, per, burst = tonumber(ARGV[5] or 0), tonumber(ARGV[6]), tonumber(ARGV[7])
local concurrency, lanes = tonumber(ARGV[8] or 0), tonumber(ARGV[9] or 0)
-- How long tokens gather, in microseconds, because a take for each of them would be too many.
local GATHER = 50000
local interval = rate > 0 and per / rate
local held, tat = 0

local function key_of(lane, part)
	local prefix, queue = string.match(CTL, '^(.*){(.*)/%d+}:ctl$')
	return prefix .. '{' .. queue .. '/' .. lane .. '}:' .. part
end

local BUCKET = lanes > 0 and key_of(0, 'ctl') or CTL

local function leases()
	local n = 0
	for lane = 0, lanes - 1 do
		n = n + redis.call('ZCOUNT', key_of(lane, 'run'), '-inf', '(' .. text(PARKED))
	end
	return lanes > 0 and n or redis.call('ZCOUNT', RUN, '-inf', '(' .. text(PARKED))
end

local function obey(most, kind)
	if most < limit then
		limit, held = math.max(most, 0), kind
	end
end

local function obey_limits()
	if rate > 0 then
		-- The queue must not stop if the clock was set back.
		tat = math.min(math.max(tonumber(redis.call('HGET', BUCKET, 'tat') or 0), us),
			us + math.ceil(burst * interval))
		obey(math.floor((us + burst * interval - tat + 0.001) / interval), 1)
	end
	if concurrency > 0 then
		obey(concurrency - leases(), 2)
	end
end

local function use_tokens(n)
	if rate > 0 and n > 0 then
		tat = math.ceil(tat + n * interval)
		redis.call('HSET', BUCKET, 'tat', text(tat))
	end
end

-- Returns the milliseconds until the bucket has gathered some tokens.
local function wait()
	local some = math.min(burst, math.max(1, math.floor(GATHER / interval)))
	return math.max(1, math.ceil((tat - (burst - some) * interval - us) / 1000))
end

local function is_late(h)
	return h.late ~= 0 and h.late_after > 0 and h.attempts == 0 and not is_asked(h) and
		now > h.first + h.late_after
end

local function miss(id, h)
	if h.period > 0 then
		redis.call('HSET', NOTE, id, 'missed')
		next_period(id, h, false)
		missed = missed + 1
	elseif h.late == LATE_DEAD then
		bury(id, h, 'missed')
		dead = dead + 1
	else
		if h.keep > 0 then
			redis.call('HSET', NOTE, id, 'missed')
		end
		finish(id, h)
		missed = missed + 1
	end
end

-- Returns false if the answer is full.
local function consider(id, header, body)
	local h = header and unpack_header(header)
	if h == NEWER or (h and body and format_of(body) > 1) then
		newer = newer + 1
		skipped = skipped + park(DUE, id, skipped, NEWER_WAIT)
	elseif not h or not body or h.state ~= SCHEDULED then
		misfit(id, body and h, DUE)
		orphans = orphans + 1
	elseif is_late(h) then
		miss(id, h)
	elseif #taken > 0 and size + #body + ITEM > BYTES then
		return false
	else
		size = size + #body + ITEM
		taken[#taken + 1] = { id = id, h = h, body = body }
	end
	return true
end

-- Returns false if the answer is full.
local function collect(ids)
	for from = 1, #ids, CHUNK do
		local chunk = { unpack(ids, from, math.min(from + CHUNK - 1, #ids)) }
		local headers = redis.call('HMGET', HDR, unpack(chunk))
		local bodies = redis.call('HMGET', BODY, unpack(chunk))
		for i, id in ipairs(chunk) do
			if not consider(id, headers[i], bodies[i]) then
				return false
			end
		end
	end
	return true
end

-- Tasks of a newer version do not count, so that others can follow them.
local function collect_due()
	local left, before = limit
	if limit == 0 then
		return
	end
	repeat
		local ids = redis.call('ZRANGEBYSCORE', DUE, '-inf', now + ahead, 'LIMIT',
			skipped + #taken, left)
		before = newer
		if not collect(ids) then
			return
		end
		left = left - #ids + newer - before
	until left == 0 or newer == before or newer > SCAN
end

local function lease_all()
	if #taken == 0 then
		return
	end
	local seq = redis.call('HINCRBY', CTL, 'seq', #taken) - #taken
	local headers, ends, ids = {}, {}, {}
	for i, t in ipairs(taken) do
		local h = t.h
		h.state = LEASED
		h.token = seq + i
		h.holder = holder
		ids[i] = t.id
		headers[2 * i - 1] = t.id
		headers[2 * i] = pack(h)
		ends[2 * i - 1] = math.max(now, h.due) + lease
		ends[2 * i] = t.id
		answer[#answer + 1] = { t.id, h.token, h.attempts + 1, h.due, h.first, h.version,
			h.missed, t.body }
	end
	redis.call('HSET', HDR, unpack(headers))
	redis.call('ZREM', DUE, unpack(ids))
	redis.call('ZADD', RUN, unpack(ends))
end

local function raise_next(head)
	if head < 0 then
		redis.call('HDEL', CTL, 'next')
	else
		redis.call('HSET', CTL, 'next', text(head))
	end
end

if redis.call('HGET', CTL, 'paused') == '1' then
	answer[2] = 1
else
	obey_limits()
	collect_due()
	lease_all()
	use_tokens(#taken)
	raise_next(score_at(DUE, skipped))
	count('missed', missed)
	count('orphan', orphans)
end
answer[3] = score_at(DUE, skipped)
answer[4] = first_score(RUN)
answer[5] = missed
answer[6] = dead
answer[7] = orphans
answer[8] = newer
if held > 0 and #taken == limit and answer[3] >= 0 and answer[3] <= now + ahead then
	answer[9] = held
	answer[10] = held == 1 and wait() or 0
end
return answer
