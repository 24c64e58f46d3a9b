package db

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// killOracle knows the entries that a database may have after its writers were killed: of each
// writer the effect of its first batches, at least the acknowledged ones and at most the issued
// ones. The shared key has the last value of one of the writers.
type killOracle struct {
	seed    uint64
	applied [killWriters]int // how many batches are known to be in the database
	states  [killWriters]map[string]string
}

func newKillOracle(seed uint64) *killOracle {
	o := &killOracle{seed: seed}
	for w := range o.states {
		o.states[w] = map[string]string{}
	}
	return o
}

// apply adds the effect of batch n of a writer to its state.
func (o *killOracle) apply(state map[string]string, writer, n int) {
	writes, _ := killBatch(o.seed, writer, n)
	for _, w := range writes {
		if w.delete {
			delete(state, w.key)
		} else {
			state[w.key] = w.value
		}
	}
}

// check compares the entries of the database with the batches of the writers. Batches that it finds
// must be there in all later checks.
func (o *killOracle) check(got map[string]string, acknowledged, issued [killWriters]int) error {
	var own [killWriters]map[string]string
	for w := range own {
		own[w] = map[string]string{}
	}
	for k, v := range got {
		w := int(k[len(k)-1] - '0')
		if k == sharedKey {
			continue
		}
		if !strings.Contains(k, "/") || w < 0 || w >= killWriters {
			return fmt.Errorf("no writer writes key %q", k)
		}
		own[w][k] = v
	}
	for w := range own {
		if err := o.checkWriter(w, own[w], acknowledged[w], issued[w]); err != nil {
			return err
		}
	}
	return o.checkShared(got)
}

// checkWriter finds out how many batches of a writer were applied.
func (o *killOracle) checkWriter(w int, got map[string]string, acknowledged, issued int) error {
	state := o.states[w]
	for n := o.applied[w] + 1; n <= acknowledged; n++ {
		o.apply(state, w, n)
	}
	n := acknowledged
	difference := differing(got, state)
	for ; difference != "" && n < issued; n++ {
		o.apply(state, w, n+1)
		if differing(got, state) == "" {
			difference = ""
		}
	}
	if difference != "" {
		return fmt.Errorf("writer %d: %d batches acknowledged, %d issued, but the database matches neither number nor one between: %s",
			w, acknowledged, issued, difference)
	}
	o.applied[w] = n
	return nil
}

// differing describes a difference between the states, ignoring the shared key.
func differing(got, want map[string]string) string {
	for k, v := range want {
		if g, ok := got[k]; !ok && k != sharedKey {
			return fmt.Sprintf("%q is missing", k)
		} else if g != v && k != sharedKey {
			return fmt.Sprintf("%q is %.20q, not %.20q", k, g, v)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			return fmt.Sprintf("%q = %.20q should not be there", k, v)
		}
	}
	return ""
}

// checkShared checks the shared key. The last batch of all that write it is the last one of its writer.
func (o *killOracle) checkShared(got map[string]string) error {
	value, exists := got[sharedKey]
	written := false
	for _, state := range o.states {
		last, ok := state[sharedKey]
		written = written || ok
		if ok && exists && last == value {
			return nil
		}
	}
	if !written && !exists {
		return nil
	}
	return fmt.Errorf("the shared key is %q (exists: %v), which is no writer's last value", value, exists)
}

func TestTheKillOracleFindsPlantedFaults(t *testing.T) {
	const seed, batches = 5, 40
	done := [killWriters]int{batches, batches, batches, batches}
	issued := [killWriters]int{batches + 1, batches + 1, batches + 1, batches + 1}
	multi := func(w, above int) int { // the next batch of several writes
		for n := above + 1; ; n++ {
			if writes, _ := killBatch(seed, w, n); len(writes) > 1 {
				return n
			}
		}
	}
	stateOf := func(numbers [killWriters]int) map[string]string {
		o := newKillOracle(seed)
		all := map[string]string{}
		for w, n := range numbers {
			for i := range n {
				o.apply(o.states[w], w, i+1)
			}
			maps.Copy(all, o.states[w])
		}
		return all
	}
	less := func(numbers [killWriters]int, w int) [killWriters]int {
		numbers[w]--
		return numbers
	}
	upTo := [killWriters]int{multi(0, batches), batches, batches, batches}
	for _, c := range []struct {
		name                 string
		state                func() map[string]string
		acknowledged, issued [killWriters]int
		fault                string
	}{
		{"all acknowledged batches", func() map[string]string { return stateOf(done) }, done, done, ""},
		{"one more issued batch", func() map[string]string { return stateOf(issued) }, done, issued, ""},
		{"none of the issued batches", func() map[string]string { return stateOf(done) }, done, issued, ""},
		{"an acknowledged batch is lost", func() map[string]string { return stateOf(less(upTo, 0)) }, upTo, upTo, "neither number"},
		{"all is lost", func() map[string]string { return nil }, done, done, "neither number"},
		{"half a batch", func() map[string]string {
			s := stateOf(less(upTo, 0))
			writes, _ := killBatch(seed, 0, upTo[0])
			s[writes[0].key] = writes[0].value
			return s
		}, less(upTo, 0), upTo, "neither number"},
		{"a batch that was not issued", func() map[string]string { return stateOf(upTo) }, less(upTo, 0), less(upTo, 0), "neither number"},
		{"a deleted key is back", func() map[string]string {
			s := stateOf(done)
			s["key999/1"] = "1 1 0"
			return s
		}, done, done, "should not be there"},
		{"a key of no writer", func() map[string]string {
			s := stateOf(done)
			s["stranger"] = "value"
			return s
		}, done, done, "no writer writes"},
		{"an old shared value", func() map[string]string {
			s := stateOf(done)
			s[sharedKey] = "0 1"
			return s
		}, done, done, "no writer's last"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := newKillOracle(seed).check(c.state(), c.acknowledged, c.issued)
			if c.fault == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.fault)
			}
		})
	}
}
