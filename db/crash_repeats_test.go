package db

import (
	"bytes"
	"slices"
	"sync"

	"github.com/sievedb/sievedb/internal/test/crashtest/oracle"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
)

// crashRepeats caches the disks that were judged last and their entries. An operation that makes
// nothing durable leaves the disk of M0 unchanged, and one that only makes data durable leaves that of
// M1 unchanged. Recovering such a disk again shows nothing new. The promises at each cut are checked
// every time.
type crashRepeats struct {
	mu   sync.Mutex
	last []judgedDisk
	next int // index in last of the disk to replace next
}

type judgedDisk struct {
	image recorder.Image
	fresh int // writes after the recovery
	state []oracle.Entry
}

// crashesRemembered suffices for each judging goroutine, model and number of fresh writes on machines
// of up to eight processors.
const crashesRemembered = 64

// find returns the entries of the disk if it is one of those judged last.
func (r *crashRepeats) find(im recorder.Image, fresh int) (state []oracle.Entry, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.last {
		if d.fresh == fresh && sameImage(d.image, im) {
			return d.state, true
		}
	}
	return nil, false
}

func (r *crashRepeats) add(d judgedDisk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.last) < crashesRemembered {
		r.last = append(r.last, d)
		return
	}
	r.last[r.next] = d
	r.next = (r.next + 1) % crashesRemembered
}

// sameImage is fast for files whose bytes are the same memory of the trace.
func sameImage(a, b recorder.Image) bool {
	return slices.Equal(a.Dirs, b.Dirs) && slices.EqualFunc(a.Files, b.Files, func(x, y recorder.ImageFile) bool {
		return x.Path == y.Path && bytes.Equal(x.Data, y.Data)
	})
}
