// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT

// How does a worker perform tasks of twheeld that take longer than their leases? Make its queue with
// twheelctl queue make jobs --mode=pull
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"twheel/twheeld"
)

func handle(ctx context.Context, job *twheeld.Job) error {
	var order struct{ Seconds float64 }
	json.Unmarshal(job.Payload, &order)
	select {
	case <-time.After(time.Duration(order.Seconds * float64(time.Second))):
	case <-ctx.Done():
		return ctx.Err() // SIGTERM, or another worker has the task by now
	}
	// A task can run twice, so store the key together with the effects of the task.
	fmt.Println(job.Key, "attempt", job.Attempt)
	return nil
}

func main() {
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	client, err := twheeld.New("", "")
	if err == nil {
		err = client.Work(ctx, "jobs", 3*time.Second, handle)
	}
	if err != nil {
		log.Fatal(err)
	}
}
