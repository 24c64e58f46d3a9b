package base

import "runtime"

// turnBytes is after how many bytes of entries a Turn ends: about 50 us of merging.
const turnBytes = 16 << 10

// Turn is for loops of background work that would keep a processor for a long time. The zero value begins one.
//
// The runtime takes a processor away from a goroutine after 10 ms at the earliest. Until then nobody looks at the
// timers of that processor, and if all processors are taken, nor at the network. So a program that wakes up for a
// request, or at a time, waits 10 ms or a multiple, although it has nothing to do with the store's compactions. On two
// processors, with 60,000 overwrites a second of 10 million keys (medians of three runs of 12 s, ms from when a write
// was due):
//
//	                       p50    p99   p99.9   p99.99
//	1 writer              0.66    7.4    17.2     20.0
//	1 writer, turns       0.41    4.6    12.8     20.4
//	16 writers            0.61    8.3    27.3     36.9
//	16 writers, turns     0.27    4.7    15.6     23.5
//
// A fill of 5 million keys takes as long: 15.9 and 15.8 s, medians of five pairs. Turns of 4 KiB are no better.
type Turn int

// Worked counts bytes of entries, and lets other goroutines run at the end of the turn.
func (t *Turn) Worked(bytes int) {
	if *t += Turn(bytes); *t >= turnBytes {
		*t = 0
		runtime.Gosched()
	}
}
