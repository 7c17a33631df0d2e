-- SPDX-License-Identifier: GPL-2.0
--
-- schedule: change the record of one schedule. This script does not use the prelude.
--
-- KEYS: PREFIXschedules, a hash: "QUEUE/NAME" to a record.
--
-- A record is a line of words, followed by the definition in JSON:
--   format	1
--   generation	number of the definition, which only grows, and is near Redis's time in us
--   state	0 disabled, 1 enabled, 2 deleted: it stays until its clears are done
--   next	the run that will be made next, or was made last; -1: no more runs
--   made	1: the task of that run was made
--   runs	number of runs that were made
--   caught	how many of the latest runs had been missed when they were made
--   clears	runs of former generations that may still be tasks, with commas; -: none
--
-- A daemon may die at any time, so each step is stored before the next one begins: next is set
-- before its task is made, and made becomes 1 afterwards. Thanks to its mark, see plant, the lane
-- refuses a task that was made before, and one of an earlier generation. So nothing is lost or made
-- twice.
--
-- ARGV: verb, field, then for
--   define	generation or 0 for any, state, next, maximum number of records, definition
--   delete	-
--   cleared	generation, the run
--   made	generation, next
--   advance	generation, next, the next one after it, caught
--   renew	generation, a newer one that a lane knows, because a failover took it back
--
-- Answer: time, then
--   result	1 done, 2 created, 0 nothing had to be done, or the record has changed since;
--		-1 there is no record, -2 a newer version stored it, -3 another generation,
--		-4 too many records
--   record	as it is now; empty: none

local KEY, verb, field = KEYS[1], ARGV[1], ARGV[2]
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local DISABLED, ENABLED, DELETED = '0', '1', '2'

local function number(n)
	return string.format('%.0f', n)
end

local text = redis.call('HGET', KEY, field)
local r

if text then
	r = {}
	r.generation, r.state, r.next, r.made, r.runs, r.caught, r.clears, r.definition =
		string.match(text,
			'^1 (%d+) (%d) (%-?%d+) (%d) (%d+) (%d+) ([%d,-]+)\n(.*)$')
	if not r.generation then
		return { us, -2, '' }
	end
end

local function answer(result)
	return { us, result, text or '' }
end

local function store(result)
	if r.state == DELETED and r.clears == '-' then
		redis.call('HDEL', KEY, field)
		text = nil
	else
		text = '1 ' .. table.concat({ r.generation, r.state, r.next, r.made, r.runs, r.caught,
			r.clears }, ' ') .. '\n' .. r.definition
		redis.call('HSET', KEY, field, text)
	end
	return answer(result)
end

-- A task of the generation that ends is cleared before one of the new generation is made.
local function renew(known)
	r.generation = number(math.max(tonumber(r.generation) + 1, known + 1, us))
end

local function clear_next()
	if r.next == '-1' or string.find(',' .. r.clears .. ',', ',' .. r.next .. ',', 1, true) then
		return
	end
	r.clears = r.clears == '-' and r.next or r.clears .. ',' .. r.next
end

-- Of a schedule that is enabled or disabled, the runs count on. One that is cleared before its time
-- was none. Returns the next run.
local function go_on(next)
	if r.made == '1' and tonumber(r.next) > us / 1000 then
		r.runs = number(tonumber(r.runs) - 1)
	end
	local max = cjson.decode(r.definition).max
	return max and tonumber(r.runs) >= max and '-1' or next
end

local function define(generation, state, next, most, definition)
	local result = 1

	if not r then
		if generation ~= '0' then
			return answer(-1)
		elseif redis.call('HLEN', KEY) >= tonumber(most) then
			return answer(-4)
		end
		r = { generation = '0', state = DELETED, next = '-1', clears = '-' }
	elseif generation ~= '0' and generation ~= r.generation then
		return answer(-3)
	elseif r.state == state and r.definition == definition then
		return answer(0)
	end
	if r.state == DELETED then
		result = 2
	end
	clear_next()
	renew(0)
	if r.definition ~= definition or result == 2 then
		r.runs = '0'
	else
		next = go_on(next)
	end
	r.state, r.next, r.definition, r.made, r.caught = state, next, definition, '0', '0'
	return store(result)
end

local function delete()
	if not r or r.state == DELETED then
		return answer(-1)
	end
	clear_next()
	renew(0)
	r.state, r.next, r.definition = DELETED, '-1', ''
	return store(1)
end

local function cleared(run)
	local left = {}

	for ms in string.gmatch(r.clears, '%d+') do
		if ms ~= run then
			left[#left + 1] = ms
		end
	end
	r.clears = #left > 0 and table.concat(left, ',') or '-'
	return store(1)
end

if verb == 'define' then
	return define(ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7])
elseif verb == 'delete' then
	return delete()
elseif not r then
	return answer(-1)
elseif r.generation ~= ARGV[3] then
	return answer(0)
elseif verb == 'cleared' then
	return cleared(ARGV[4])
elseif verb == 'renew' then
	renew(tonumber(ARGV[4]))
	return store(1)
elseif r.next ~= ARGV[4] or (r.made == '1') == (verb == 'made') then
	return answer(0)
elseif verb == 'made' then
	r.made, r.runs = '1', number(tonumber(r.runs) + 1)
	return store(1)
end
r.made, r.next, r.caught = '0', ARGV[5], ARGV[6]
return store(1)
