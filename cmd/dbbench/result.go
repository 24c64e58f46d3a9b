package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// result is the result of one workload. README.md documents its JSON form.
type result struct {
	Name        string   `json:"name"`
	Threads     int      `json:"threads"`
	Ops         uint64   `json:"ops"`     // of all threads
	Seconds     float64  `json:"seconds"` // by the wall clock
	MicrosPerOp float64  `json:"micros_per_op"`
	OpsPerSec   float64  `json:"ops_per_sec"`
	Bytes       uint64   `json:"bytes"` // keys and values, read or written
	MBPerSec    float64  `json:"mb_per_sec"`
	Found       *uint64  `json:"found,omitempty"` // of workloads that look up keys
	AllocsPerOp float64  `json:"allocs_per_op"`
	AllocBytes  float64  `json:"alloc_bytes_per_op"`
	Latency     *latency `json:"latency_micros,omitempty"`
	Note        string   `json:"note,omitempty"`
}

// latency is the distribution of the operations' times in microseconds.
type latency struct {
	Min  float64 `json:"min"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

func newResult(name string, threads []*thread, wall time.Duration) *result {
	r := &result{Name: name, Threads: len(threads), Seconds: wall.Seconds()}
	var all *hdrhistogram.Histogram
	var busy time.Duration
	for _, th := range threads {
		if th.ops == 0 {
			th.ops = th.steps
		}
		r.Ops += th.ops
		r.Bytes += th.bytes
		busy += th.elapsed
		if th.latencies != nil && all == nil {
			all = th.latencies
		} else if th.latencies != nil {
			all.Merge(th.latencies)
		}
	}
	if r.Ops > 0 {
		r.MicrosPerOp = float64(busy.Nanoseconds()) / 1e3 / float64(r.Ops)
	}
	if wall > 0 {
		r.OpsPerSec = float64(r.Ops) / wall.Seconds()
		r.MBPerSec = float64(r.Bytes) / (1 << 20) / wall.Seconds()
	}
	if all != nil {
		r.Latency = summarize(all)
	}
	return r
}

func summarize(h *hdrhistogram.Histogram) *latency {
	const nanosPerMicro = 1e3
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / nanosPerMicro }
	return &latency{
		Min: float64(h.Min()) / nanosPerMicro, Mean: h.Mean() / nanosPerMicro,
		P50: at(50), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / nanosPerMicro,
	}
}

func (r *result) setAllocations(before, after allocations) {
	if r.Ops > 0 {
		r.AllocsPerOp = float64(after.objects-before.objects) / float64(r.Ops)
		r.AllocBytes = float64(after.bytes-before.bytes) / float64(r.Ops)
	}
}

// setFound sets the number of operations that found their key.
func (r *result) setFound(threads []*thread) {
	var found uint64
	for _, th := range threads {
		found += th.found
	}
	r.Found = &found
}

// String returns the result's line in db_bench's form, and a second one if there are percentiles.
func (r *result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-17s: %11.3f micros/op; %11.0f ops/sec; %7.1f MB/s; %6.2f allocs/op", r.Name, r.MicrosPerOp, r.OpsPerSec, r.MBPerSec, r.AllocsPerOp)
	if r.Found != nil {
		fmt.Fprintf(&b, "; %s of %s found", bench.Grouped(*r.Found), bench.Grouped(r.Ops))
	}
	if r.Note != "" {
		fmt.Fprintf(&b, "; %s", r.Note)
	}
	if l := r.Latency; l != nil {
		fmt.Fprintf(&b, "\n%-17s  micros: min %.2f  mean %.2f  p50 %.2f  p99 %.2f  p99.9 %.2f  max %.2f", "", l.Min, l.Mean, l.P50, l.P99, l.P999, l.Max)
	}
	return b.String()
}
