package hugepages

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyWholeLargePagesAreAdvised(t *testing.T) {
	cases := []struct {
		name             string
		start, end       uintptr
		wantFrom, wantTo uintptr
	}{
		{"both ends within one page", 10 * size, 10*size + 100, 10 * size, 10 * size},
		{"a page minus one byte", 10 * size, 11*size - 1, 10 * size, 10 * size},
		{"exactly a page", 10 * size, 11 * size, 10 * size, 11 * size},
		{"parts on both sides", 10*size + 8, 14*size + 4, 11 * size, 14 * size},
		{"parts on both sides and nothing between", 10*size + 8, 11*size + 4, 11 * size, 11 * size},
		{"at the very beginning", 0, size - 1, 0, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			from, to := within(c.start, c.end)
			require.Equal(t, c.wantTo, to)
			require.Equal(t, c.wantFrom, from)
		})
	}
}

// recordingTracker returns a tracker that records the pages to collapse.
func recordingTracker() (t *tracker, pages func() []uintptr) {
	var mu sync.Mutex
	var got []uintptr
	t = &tracker{collapse: func(page uintptr) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, page)
	}}
	return t, func() []uintptr {
		waitUntilIdle(t)
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

// waitUntilIdle waits until a tracker collapses no page.
func waitUntilIdle(t *tracker) {
	for busy := true; busy; {
		t.mu.Lock()
		busy = t.working
		t.mu.Unlock()
	}
}

func TestPageIsCollapsedOnceHalfIsCounted(t *testing.T) {
	tr, pages := recordingTracker()
	for range 255 {
		tr.count(7, 4096)
		tr.count(9, 4096)
	}
	require.Empty(t, pages())
	tr.count(9, 4096)
	require.Equal(t, []uintptr{9}, pages())
	for range 2000 {
		tr.count(9, 4096)
	}
	require.Equal(t, []uintptr{9}, pages())
	tr.count(7, 4096)
	require.Equal(t, []uintptr{9, 7}, pages())
}

func TestConcurrentCountsCollapseEachPageOnce(t *testing.T) {
	tr, pages := recordingTracker()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 4000 {
				tr.count(uintptr(i%50), size/100)
			}
		})
	}
	wg.Wait()
	got := pages()
	require.Len(t, got, 50)
	seen := map[uintptr]bool{}
	for _, p := range got {
		require.False(t, seen[p])
		seen[p] = true
	}
}

// TestMemoryIsUnchanged counts and advises real memory.
func TestMemoryIsUnchanged(t *testing.T) {
	arena := make([]byte, 5*size)
	Want(arena)
	Want(nil)
	Done(arena)
	Done(nil)
	Count(nil)
	pieces := make([][]byte, 4000)
	for i := range pieces {
		pieces[i] = make([]byte, 2300)
		for j := range pieces[i] {
			pieces[i][j] = byte(i)
		}
		Count(pieces[i])
	}
	waitUntilIdle(&heap)
	for i, p := range pieces {
		require.Equal(t, byte(i), p[0])
		require.Equal(t, byte(i), p[len(p)-1])
	}
	require.Equal(t, make([]byte, len(arena)), arena)
}
