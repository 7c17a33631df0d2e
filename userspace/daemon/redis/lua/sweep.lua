-- SPDX-License-Identifier: GPL-2.0
--
-- sweep: remove old done and dead tasks, and bring back tasks that an older version put aside.
--
-- ARGV: limit, dead-max, dead-keep
--
-- Answer: time, then
--   removed	tasks that were removed
--   done	those whose retention has ended
--   old	dead ones, because they were dead for dead-keep
--   many	dead ones, the oldest, because there were more than dead-max
--   orphans	ids that were removed because they had no header
--   newer	tasks of a newer version, which were left alone
--   next	when the next done or dead task is to be removed, or -1
--
-- At most limit, and at most 128, of each.

local limit = math.min(tonumber(ARGV[1]), BATCH)
local dead_max, dead_keep = tonumber(ARGV[2]), tonumber(ARGV[3])
local orphans, newer = 0, 0

local function remove_all(ids, key, state)
	local removed = 0
	for _, id in ipairs(ids) do
		local h = get(id)
		if h == NEWER then
			newer = newer + 1
			park(key, id, SKIPPED_MAX, 0)
		elseif h and h.state == state then
			remove(id, h)
			removed = removed + 1
		else
			misfit(id, h, key)
			orphans = orphans + 1
		end
	end
	return removed
end

local function until_time(key, ms, state)
	return remove_all(redis.call('ZRANGEBYSCORE', key, '-inf', ms, 'LIMIT', 0, limit), key, state)
end

-- Returns some of the tasks that were put aside. If there are more than limit, the time decides
-- which, because this version may not know any of the first ones.
local function put_aside(key)
	local parked = redis.call('ZCOUNT', key, text(PARKED), '+inf')
	local from = redis.call('ZCARD', key) - parked
	if parked > limit then
		from = from + math.max(0, us % (parked + limit) - limit)
	end
	return parked > 0 and redis.call('ZRANGE', key, from, from + limit - 1) or {}
end

local function bring_back(key)
	for _, id in ipairs(put_aside(key)) do
		local body = get(id) ~= NEWER and redis.call('HGET', BODY, id)
		if body and format_of(body) == 1 then
			local score = redis.call('ZSCORE', key, id) - PARKED
			redis.call('ZADD', key, text(score), id)
			if key == DUE then
				announce(score)
			end
		else
			newer = newer + 1
		end
	end
end

for _, key in ipairs({ DUE, RUN, DONE, DEAD }) do
	bring_back(key)
end
local done = until_time(DONE, now, FINISHED)
local old = until_time(DEAD, now - dead_keep, BURIED)
local many = 0
local over = math.min(redis.call('ZCARD', DEAD) - dead_max, limit)
if over > 0 then
	many = remove_all(redis.call('ZRANGE', DEAD, 0, over - 1), DEAD, BURIED)
end
-- The earlier of the two ends.
local function next_end()
	local ends, died = first_score(DONE), first_score(DEAD)
	if died >= 0 and (ends < 0 or died + dead_keep < ends) then
		return died + dead_keep
	end
	return ends
end

count('orphan', orphans)
return { us, done + old + many, done, old, many, orphans, newer, next_end() }
