-- SPDX-License-Identifier: GPL-2.0
--
-- remove: remove many tasks, or close a lane.
--
-- ARGV: "purge", set, limit, before, prefix, and perhaps score, id
--   set	due, run, done or dead
--   limit	at most 128 are looked at
--   before	only tasks that are due, ended or died before this time. -1: any
--   prefix	only ids that begin with it; may be empty
--   score, id	continue after this place
-- Answer: time, then a list of how many ids were looked at, and the place of the last of them;
-- then how many tasks were removed. A task of a newer version stays.
--
-- ARGV: "close"
-- Answer: time, then the number of tasks in the lane. If there are none, the lane is closed: put
-- refuses tasks, and everything except ctl is removed. ctl stays for a day, so that a daemon which
-- missed this does not bring the queue back.
--
-- ARGV: "open"
-- Answer: time, 0. The lane is open.
--
-- ARGV: "ask"
-- Answer: time, then 1 if the lane is closed.

local KEEP = 86400

local function ended(h, score)
	return h.state == FINISHED and score - h.keep or score
end

local function purge(set, limit, before, prefix, score, id)
	local key = ({ due = DUE, run = RUN, done = DONE, dead = DEAD })[set]
	local from = score and rank_behind(key, score, id) or 0
	local found = redis.call('ZRANGE', key, from, from + math.min(limit, BATCH) - 1, 'WITHSCORES')
	local removed = 0
	for i = 1, #found, 2 do
		local name, at = found[i], tonumber(found[i + 1])
		if string.sub(name, 1, #prefix) == prefix then
			local h = get(name)
			if not h then
				remove_orphan(name)
			elseif (before < 0 or ended(h, at) < before) and not is_newer(name, h) then
				remove(name, h)
				removed = removed + 1
			end
		end
	end
	return { us, { #found / 2, found[#found], found[#found - 1] }, removed }
end

local function close()
	local tasks = redis.call('HLEN', HDR)
	if tasks == 0 then
		redis.call('UNLINK', DUE, RUN, BODY, DEAD, DONE, NOTE)
		redis.call('HSET', CTL, 'gone', 1)
		redis.call('HDEL', CTL, 'paused', 'next')
		redis.call('EXPIRE', CTL, KEEP)
	end
	return { us, tasks }
end

if ARGV[1] == 'purge' then
	return purge(ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7])
elseif ARGV[1] == 'close' then
	return close()
elseif ARGV[1] == 'open' then
	if redis.call('HDEL', CTL, 'gone') == 1 then
		redis.call('PERSIST', CTL)
	end
	return { us, 0 }
end
return { us, redis.call('HGET', CTL, 'gone') and 1 or 0 }
