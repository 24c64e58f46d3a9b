package db

import (
	"bytes"
	"slices"
	"sync"

	"github.com/sievedb/sievedb/internal/crashtest/oracle"
	"github.com/sievedb/sievedb/internal/crashtest/recorder"
)

// crashRepeats remembers the disks that were judged last and what they hold. An
// operation that makes nothing durable leaves the disk of M0 as it was, and one that
// only makes something durable that of M1: to recover such a disk once more shows
// nothing. What was promised by then is another question, and is asked each time.
type crashRepeats struct {
	mu   sync.Mutex
	last []judgedDisk
	next int // the place in last of the one to give up
}

type judgedDisk struct {
	image recorder.Image
	fresh int // writes after the recovery
	state []oracle.Entry
}

// crashesRemembered is enough for each goroutine that judges, model, and number of
// fresh writes on machines of up to eight processors.
const crashesRemembered = 64

// find returns what the disk holds, if it is one of those judged last.
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

// sameImage takes no time for files whose bytes stand in the same place of the trace.
func sameImage(a, b recorder.Image) bool {
	return slices.Equal(a.Dirs, b.Dirs) && slices.EqualFunc(a.Files, b.Files, func(x, y recorder.ImageFile) bool {
		return x.Path == y.Path && bytes.Equal(x.Data, y.Data)
	})
}
