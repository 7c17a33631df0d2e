// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT

package twheeld

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// A Job is a task that a worker has reserved. Its Key is equal for all attempts of a run.
type Job struct {
	Queue    string          `json:"-"`
	ID       string          `json:"id"`
	Token    string          `json:"token"`
	Key      string          `json:"key"`
	Version  int64           `json:"version"`
	Attempt  int             `json:"attempt"`
	FirstDue int64           `json:"first_due"`
	Payload  json.RawMessage `json:"payload"`
	Bytes    []byte          `json:"payload_base64"`
}

// A Failure is an error of a handler that says what happens to its task.
type Failure struct {
	Err   error
	Delay time.Duration // until the next attempt; 0: the retry settings of the task decide
	Dead  bool          // no further attempt
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Reserve reserves up to limit tasks that are due. It waits for the first one, and may return none.
func (c *Client) Reserve(ctx context.Context, queue string, limit int, lease, wait time.Duration) ([]*Job, error) {
	var answer struct{ Tasks []*Job }
	err := c.callAndWait(ctx, "POST", to(queue, "reserve"), map[string]any{
		"limit": limit, "lease": Duration(lease), "wait": Duration(wait)}, &answer, true, wait)
	for _, job := range answer.Tasks {
		job.Queue = queue
	}
	return answer.Tasks, err
}

// report returns false if the lease of the task has ended.
func (c *Client) report(ctx context.Context, verb string, j *Job, item map[string]any) (bool, error) {
	item["id"], item["token"] = j.ID, j.Token
	err := c.call(ctx, "POST", to(j.Queue, verb), map[string]any{"tasks": []any{item}}, &struct{}{}, true)
	var e *Error
	if errors.As(err, &e) && e.Status == 410 {
		// If an earlier report had an unknown fate, it was applied, which made this one stale.
		return e.Repeated && verb != "extend", nil
	}
	return err == nil, err
}

// Ack reports success. It returns false if the lease had ended, so that the task may run again.
func (c *Client) Ack(ctx context.Context, j *Job) (bool, error) {
	return c.report(ctx, "ack", j, map[string]any{})
}

// Nack reports failure. If err is a *Failure, it decides what happens to the task.
func (c *Client) Nack(ctx context.Context, j *Job, err error) (bool, error) {
	// twheeld accepts no NUL.
	item := map[string]any{"error": strings.ReplaceAll(err.Error(), "\x00", "?")}
	var f *Failure
	if errors.As(err, &f) && f.Dead {
		item["dead"] = true
	} else if f != nil && f.Delay > 0 {
		item["delay"] = Duration(f.Delay)
	}
	return c.report(ctx, "nack", j, item)
}

// Extend renews the lease from now on.
func (c *Client) Extend(ctx context.Context, j *Job, lease time.Duration) (bool, error) {
	return c.report(ctx, "extend", j, map[string]any{"lease": Duration(lease)})
}

// Release gives a task back without using up an attempt.
func (c *Client) Release(ctx context.Context, j *Job) (bool, error) {
	return c.report(ctx, "release", j, map[string]any{})
}

// heartbeat extends the lease after each third of it. If another worker may have the task, it calls
// lost.
func (c *Client) heartbeat(ctx context.Context, j *Job, lease time.Duration, lost func()) {
	ends := time.Now().Add(lease)
	for {
		pause := lease / 3
		if left := time.Until(ends); left < pause {
			pause = left
		}
		if sleep(ctx, pause) != nil {
			return
		}
		asked := time.Now()
		inTime, done := context.WithDeadline(ctx, ends)
		held, err := c.Extend(inTime, j, lease)
		done()
		if err == nil && held {
			ends = asked.Add(lease)
		} else if ctx.Err() == nil && (err == nil || !time.Now().Before(ends)) {
			lost()
			return
		}
	}
}

// Work passes each task to handle until the context ends, and extends the lease of the task in the
// meantime. The context of handle ends when the lease is lost or the context of Work ends. If
// handle returns an error, the task is repeated. If it returns the error of the context of Work, the
// task is given back without using up an attempt. Work continues after outages of twheeld, and
// returns nil when its context has ended.
func (c *Client) Work(ctx context.Context, queue string, lease time.Duration, handle func(context.Context, *Job) error) error {
	for ctx.Err() == nil {
		jobs, err := c.Reserve(ctx, queue, 1, lease, 20*time.Second)
		for _, job := range jobs {
			err = c.handle(ctx, job, lease, handle)
		}
		var e *Error
		if errors.As(err, &e) && e.Passing() {
			err = sleep(ctx, firstPause)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (c *Client) handle(ctx context.Context, j *Job, lease time.Duration, handle func(context.Context, *Job) error) error {
	alive, lost := context.WithCancel(ctx)
	defer lost()
	beat, done := context.WithCancel(context.Background())
	defer done()
	go c.heartbeat(beat, j, lease, lost)
	failed := handle(alive, j)
	done()
	// Send the report even if Work ends.
	var err error
	switch {
	case failed == nil:
		_, err = c.Ack(context.Background(), j)
	case ctx.Err() != nil && errors.Is(failed, ctx.Err()):
		_, err = c.Release(context.Background(), j)
	default:
		_, err = c.Nack(context.Background(), j, failed)
	}
	return err
}
