package machine

import (
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/db"
)

// maxBatchBytes is where a batch ends although more entries are known. The database accepts batches of a GiB, and
// entries may be large.
const maxBatchBytes = 16 << 20

// Apply implements raft.FSM. It is ApplyBatch for one entry.
func (m *Machine) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch implements raft.BatchingFSM. The response to an entry is nil, ErrSuperseded, or the error for which
// the machine failed.
func (m *Machine) ApplyBatch(logs []*raft.Log) []any {
	responses := make([]any, len(logs))
	m.writing.Lock()
	defer m.writing.Unlock()
	for done := 0; done < len(logs); {
		n, err := m.applySome(logs[done:], responses[done:])
		done += n
		if err != nil {
			err = m.fail(err)
			for i := done; i < len(logs); i++ {
				responses[i] = err
			}
			break
		}
	}
	return responses
}

// applySome applies some of the entries, as one batch, and returns how many. With an error it has applied those
// before the one that cannot be.
func (m *Machine) applySome(logs []*raft.Log, responses []any) (n int, err error) {
	if err := m.Err(); err != nil {
		return 0, err
	}
	st, b := m.present, &m.batch
	b.Reset()
	old := st.at.Load()
	to := *old
	for n < len(logs) && (n == 0 || b.Size()+len(logs[n].Data) <= maxBatchBytes) {
		if responses[n], err = m.add(b, &to, logs[n]); err != nil {
			err = fmt.Errorf("apply entry %d: %w", logs[n].Index, err)
			break
		}
		n++
	}
	if to.index == old.index {
		return n, err // all were applied before
	}
	to.put(b, old)
	if err := st.write(b, to); err != nil {
		return 0, fmt.Errorf("apply entries up to %d: %w", to.index, err)
	}
	m.waiters.advance(to.index)
	return n, err
}

// add adds an entry to a batch, and moves the position. After an error neither has changed.
func (m *Machine) add(b *db.Batch, to *position, l *raft.Log) (response any, err error) {
	switch {
	case l.Index <= to.index:
		return nil, nil
	case l.Type == raft.LogConfiguration:
		c, err := decodeConfiguration(l.Data)
		if err != nil {
			return nil, err
		}
		to.configuration, to.configIndex = c, l.Index
	case l.Type == raft.LogCommand:
		if response, err = m.addCommand(b, to, l); err != nil {
			return nil, err
		}
	}
	to.index, to.term = l.Index, l.Term
	return response, nil
}

func (m *Machine) addCommand(b *db.Batch, to *position, l *raft.Log) (response any, err error) {
	e, err := layout.ParseEntry(l.Data)
	if err != nil {
		return nil, err
	}
	if !e.Continues(to.chain, l.Term) {
		return ErrSuperseded, nil
	}
	m.payload.Reset()
	if len(e.Payload) > 0 {
		if err := m.payload.UnmarshalBinary(e.Payload); err != nil {
			return nil, err
		}
	}
	if e.Kind == layout.EntryDeleteAll {
		b.DeleteRange([]byte{layout.KeyPrefix}, []byte{layout.KeyPrefix + 1})
		b.DeleteRange([]byte{layout.ExpiryPrefix}, []byte{layout.ExpiryPrefix + 1})
	}
	b.Append(&m.payload)
	to.chain, to.clock = e.Chain, max(to.clock, e.Time)
	return nil, nil
}
