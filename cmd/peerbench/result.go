package main

import (
	"runtime"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// result is the result of one measurement. Figures that are unknown on this system, or
// omitted by --medians, are nil or 0.
type result struct {
	Engine   string `json:"engine"`
	Workload string `json:"workload"`
	Threads  int    `json:"threads"`
	Round    int    `json:"round"`
	Keys     int    `json:"keys,omitempty"` // with --scale

	Ops       uint64   `json:"ops"`
	Seconds   float64  `json:"seconds,omitzero"`
	OpsPerSec float64  `json:"ops_per_sec"`
	Found     uint64   `json:"found,omitzero"`
	Latency   *latency `json:"latency_micros,omitempty"`

	// Concurrent writes, if the workload has any:
	BackgroundWrites *float64 `json:"writes_beside_per_sec,omitempty"`
	BackgroundWaits  *latency `json:"writes_beside_wait_micros,omitempty"` // since they were due

	CPUSeconds       float64  `json:"cpu_seconds"` // of the whole process, including settling
	AllocsPerOp      *float64 `json:"allocs_per_op,omitempty"`
	ReadCallsPerOp   *float64 `json:"read_calls_per_op,omitempty"`
	DiskReadPerOp    *float64 `json:"disk_read_bytes_per_op,omitempty"`
	MajorFaultsPerOp *float64 `json:"major_faults_per_op,omitempty"`

	OpenSeconds *float64 `json:"open_seconds,omitempty"`

	PeakBytes uint64 `json:"peak_resident_bytes"`
	EndBytes  uint64 `json:"end_resident_bytes,omitempty"`
	// Parts of EndBytes, see bench.Memory; nil in older results, too:
	EndAnonymous *uint64 `json:"end_anonymous_bytes,omitempty"`
	EndFile      *uint64 `json:"end_file_bytes,omitempty"`
	DiskBytes    uint64  `json:"disk_bytes"`

	settling
	Further further `json:"further,omitzero"`
	Error   string  `json:"error,omitempty"`
}

// further has figures that some results have.
type further struct {
	LastTenthPerSec *float64 `json:"last_tenth_ops_per_sec,omitempty"` // of operations that were timed
	HeapBytes       *uint64  `json:"heap_bytes,omitempty"`             // live objects of Go, with --scale
	// Of writes at a fixed rate: that rate, and the waits since they were due.
	OfferedPerSec *float64 `json:"offered_ops_per_sec,omitempty"`
	Waits         *latency `json:"wait_micros,omitempty"`
	CallWriteAmp  *float64 `json:"write_amplification_calls,omitempty"` // by bytes of write calls
}

// settling has the figures of a workload after which the engine settled.
type settling struct {
	SettleSeconds    *float64 `json:"settle_seconds,omitempty"`
	SettledOpsPerSec *float64 `json:"settled_ops_per_sec,omitempty"`
	WriteAmp         *float64 `json:"write_amplification,omitempty"` // by dirtied pages
}

// latency is in microseconds.
type latency struct {
	P50   float64 `json:"p50,omitzero"`
	P99   float64 `json:"p99,omitzero"`
	P999  float64 `json:"p99_9,omitzero"`
	P9999 float64 `json:"p99_99,omitzero"`
	Max   float64 `json:"max,omitzero"`
}

func summarize(h *hdrhistogram.Histogram) *latency {
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
	return &latency{P50: at(50), P99: at(99), P999: at(99.9), P9999: at(99.99), Max: float64(h.Max()) / 1e3}
}

// setMeasured sets the figures of the measured pass. Native engines have no Go allocations.
func (r *result) setMeasured(p *passResult, native bool) {
	r.Ops, r.Found = p.ops, p.found
	r.Seconds = p.after.time.Sub(p.before.time).Seconds()
	r.OpsPerSec = float64(p.ops) / r.Seconds
	r.CPUSeconds = p.after.cpu - p.before.cpu
	perOp := func(after, before uint64) *float64 {
		n := float64(after-before) / float64(p.ops)
		return &n
	}
	if !native {
		r.AllocsPerOp = perOp(p.after.mallocs, p.before.mallocs)
	}
	if p.after.hasIO {
		r.ReadCallsPerOp = perOp(p.after.io.ReadCalls, p.before.io.ReadCalls)
		r.DiskReadPerOp = perOp(p.after.io.ReadBytes, p.before.io.ReadBytes)
		r.MajorFaultsPerOp = perOp(p.after.io.MajorFaults, p.before.io.MajorFaults)
	}
	r.setMemory(bench.Resident())
	if p.latencies != nil {
		r.Latency = summarize(p.latencies)
	}
	if p.lastTenth > 0 {
		r.Further.LastTenthPerSec = &p.lastTenth
	}
	if p.background != nil {
		rate := float64(p.background.ops) / p.background.time.Seconds()
		r.BackgroundWrites, r.BackgroundWaits = &rate, summarize(p.background.waits)
	}
}

// setSettled adds the figures of settling, which took settle seconds.
func (r *result) setSettled(p *passResult, after counters, settle float64) {
	r.SettleSeconds = &settle
	rate := float64(p.ops) / (r.Seconds + settle)
	r.SettledOpsPerSec = &rate
	r.CPUSeconds = after.cpu - p.before.cpu
	if after.hasIO && p.bytes > 0 {
		pages := float64(after.io.WriteBytes-p.before.io.WriteBytes) / float64(p.bytes)
		calls := float64(after.io.WriteCallBytes-p.before.io.WriteCallBytes) / float64(p.bytes)
		r.WriteAmp, r.Further.CallWriteAmp = &pages, &calls
	}
	r.setMemory(bench.Resident())
}

// setHeap sets the size of live objects on Go's heap.
func (r *result) setHeap() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.Further.HeapBytes = &m.HeapAlloc
}

func (r *result) setMemory(m bench.Memory) {
	r.PeakBytes, r.EndBytes = m.Peak, m.Now
	if m.Now > 0 {
		r.EndAnonymous, r.EndFile = &m.Anonymous, &m.File
	}
}
