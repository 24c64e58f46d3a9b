package machine

import (
	"container/heap"
	"context"
	"sync"
)

// waiters are goroutines that wait for an index. Each is woken once, by its own index.
type waiters struct {
	mu      sync.Mutex
	reached uint64
	err     error // why waiting is impossible
	queue   waiterHeap
}

type waiter struct {
	index uint64
	done  chan error // buffered
	at    int        // in the heap, -1: no longer
}

// wait waits until an index is reached.
func (w *waiters) wait(ctx context.Context, index uint64) error {
	w.mu.Lock()
	if w.err != nil || w.reached >= index {
		defer w.mu.Unlock()
		return w.err
	}
	me := &waiter{index: index, done: make(chan error, 1)}
	heap.Push(&w.queue, me)
	w.mu.Unlock()
	select {
	case err := <-me.done:
		return err
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		if me.at >= 0 {
			heap.Remove(&w.queue, me.at)
		}
		return ctx.Err()
	}
}

// advance wakes those who wait for up to index.
func (w *waiters) advance(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reached = max(w.reached, index)
	for len(w.queue) > 0 && w.queue[0].index <= w.reached {
		heap.Pop(&w.queue).(*waiter).done <- nil
	}
}

// stop wakes all with an error, and refuses more until restart.
func (w *waiters) stop(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	for len(w.queue) > 0 {
		heap.Pop(&w.queue).(*waiter).done <- err
	}
}

// restart begins again with an index.
func (w *waiters) restart(index uint64) {
	w.mu.Lock()
	w.err, w.reached = nil, index
	w.mu.Unlock()
	w.advance(index)
}

// waiterHeap is a heap.Interface with the lowest index first.
type waiterHeap []*waiter

func (h waiterHeap) Len() int           { return len(h) }
func (h waiterHeap) Less(i, j int) bool { return h[i].index < h[j].index }

func (h waiterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *waiterHeap) Push(x any) {
	w := x.(*waiter)
	w.at = len(*h)
	*h = append(*h, w)
}

func (h *waiterHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	w.at = -1
	return w
}
