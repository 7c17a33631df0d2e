-- SPDX-License-Identifier: GPL-2.0
--
-- change: cancel, move, run or replay one task.
--
-- ARGV:
--   id
--   verb	0 cancel, 1 move, 2 run, 3 replay
--   relative	0: time is absolute. 1: time counts from now
--   time	of move
--
-- Answer: time, then the state that the task was in, or -1 if there is no such task, or -2 if a
-- newer version stored it, so that nothing was done. If there is a task, then:
--   due	for cancel, and for a replay of a task that is not dead: the due time that the
--		task had. Otherwise the due time that the user asked for
--   holder	of a leased task; otherwise 16 zeros
--   token	of a leased task; otherwise 0
--   ahead	1: leased and not due yet, so a recall can still do what was asked
--   version
--
-- A leased task does not change, except that a cancel sets "no further attempt". With that flag,
-- move and run answer ahead = 0. What happens to all other tasks:
--   cancel	the task is removed
--   move	it is scheduled for time. A dead or done task starts again with no attempts
--   run	it is scheduled for now, in the same way
--   replay	a dead task is scheduled for now, with no attempts. Others do not change

local id, verb = ARGV[1], ARGV[2]
local at = tonumber(ARGV[4]) + (ARGV[3] == '1' and now or 0)

local h = get(id)
if not h then
	return { us, -1 }
elseif is_newer(id, h) then
	return { us, -2 }
end
local state, due = h.state, h.due
local holder, token = holder_hex(h.holder), h.token
local ahead = state == LEASED and due > now
if verb == '2' or (verb == '3' and state == BURIED) then
	at = now
end
if verb == '1' or verb == '2' or (verb == '3' and state == BURIED) then
	due = at
end

-- It runs again, with the same key.
local function restart()
	if state == FINISHED or state == BURIED then
		h.attempts = 0
		h.lost = 0
	end
end

if verb == '0' then
	if state == LEASED then
		h.flags = h.flags - h.flags % 2 + LAST
		set(id, h)
	else
		remove(id, h)
	end
elseif state == LEASED then
	ahead = ahead and not is_last(h)
elseif verb == '1' then
	if state == SCHEDULED then
		move(id, h, at)
	else
		restart()
		h.flags = ASKED
		schedule(id, h, at)
	end
elseif verb == '2' or state == BURIED then
	restart()
	h.flags = ASKED
	schedule(id, h, at)
end
return { us, state, due, holder, token, ahead and 1 or 0, h.version }
