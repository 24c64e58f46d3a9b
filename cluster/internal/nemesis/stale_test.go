package nemesis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStalenessFindsAnswersThatAreTooOld(t *testing.T) {
	s := staleness{bound: time.Second, acked: map[int]time.Time{}}
	start := time.Now()
	s.acked[1], s.acked[3], s.last = start, start.Add(time.Minute), 3
	s.judge(start.Add(time.Minute+time.Second), reply{text: "1"})
	require.Equal(t, staleCounts{Answers: 1, Oldest: time.Second}, s.counts, "3 was acknowledged within the bound")
	s.judge(start.Add(time.Minute+2*time.Second), reply{text: "3"})
	s.judge(start.Add(time.Hour), reply{text: "2"})
	s.judge(start.Add(time.Hour), reply{err: "STALE"})
	want := staleCounts{Answers: 2, Refused: 1, Oldest: time.Second}
	require.Equal(t, want, s.counts, "the newest, and one of unknown outcome")
	s.judge(start.Add(time.Minute+2*time.Second), reply{text: "1"})
	require.Equal(t, 1, s.counts.TooOld)
	s.judge(start.Add(2*time.Second), reply{null: true})
	require.Equal(t, 2, s.counts.TooOld, "the absent key is older than 1")
}

// staleBound is shorter than messages are late.
const staleBound = heartbeat

func TestStaleAnswersKeepTheirBoundWhenMessagesAreLate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 3, artifacts(t), setup{stale: staleBound})
	s := &staleness{bound: staleBound, key: probeKey(1, groups), dial: c.dialer(), nodes: c.addrs}
	s.begin()
	m := c.others(c.leader(1))[0]
	time.Sleep(heartbeat) // answers are young
	c.net.slowLinks(4*staleBound, between(c.others(m), []*member{m})...)
	time.Sleep(8 * staleBound)
	c.net.heal(false)
	time.Sleep(heartbeat)
	counts := s.end()
	t.Log(counts)
	c.abandon()
	require.Positive(t, counts.Answers)
	require.Zero(t, counts.TooOld)
}
