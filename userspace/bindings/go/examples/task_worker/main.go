// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT

// How does a worker do tasks of twheeld that take longer than their leases? It has the queue of
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
		return ctx.Err() // SIGTERM, or others have the task by now
	}
	// To be told twice is not to do it twice: store the key with what the task does.
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
