package machine

import (
	"encoding/binary"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/db"
)

func FuzzParsePointer(f *testing.F) {
	f.Add([]byte(pointer{name: "state-000001"}.String()))
	f.Add([]byte(pointer{name: "state-000000000000000012", creating: true}.String()))
	f.Add([]byte(pointer{name: "send-000001"}.String()))
	f.Add([]byte(pointer{name: "state-000001.checkpoint"}.String()))
	f.Add([]byte(pointer{name: "state-../../x"}.String()))
	f.Add([]byte("creating creating state-000001 00000000\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePointer(b)
		if err != nil {
			return
		}
		require.Equal(t, string(b), p.String(), "what is accepted is encoded to the same bytes")
		_, ok := dirNumber(p.name)
		require.True(t, ok, "it names a directory of the machine and nothing else: %q", p.name)
		require.LessOrEqual(t, len(b), maxPointerLen, "what is written can be read")
	})
}

// values is a database that only has some values.
type values struct {
	db.Reader
	m map[string][]byte
}

func (v values) Get(key []byte) ([]byte, error) {
	if b, found := v.m[string(key)]; found {
		return b, nil
	}
	return nil, db.ErrNotFound
}

// What the state of another node, or a damaged one, says of how far it is.
func FuzzReadPosition(f *testing.F) {
	servers := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "1.1", Address: "a:1"}, {ID: "2.1", Address: "b:1"}}})
	f.Add(make([]byte, 16), make([]byte, layout.ChainLen), make([]byte, 8), append(make([]byte, 8), servers...), uint8(15))
	f.Add([]byte{1}, []byte{2}, []byte{3}, []byte{4}, uint8(15))
	f.Add([]byte{}, []byte{}, []byte{}, append(make([]byte, 8), 0x81, 0xa7, 'S', 'e', 'r', 'v', 'e', 'r', 's', 0xdd, 0xff, 0xff, 0xff, 0xff), uint8(8))
	f.Add([]byte{}, []byte{}, []byte{}, append(make([]byte, 8), 0x80), uint8(8))
	f.Fuzz(func(t *testing.T, applied, chain, clock, configuration []byte, has uint8) {
		v := values{m: map[string][]byte{}}
		for i, b := range [][]byte{applied, chain, clock, configuration} {
			if has&(1<<i) != 0 {
				v.m[string([][]byte{appliedKey, chainKey, clockKey, configurationKey}[i])] = b
			}
		}
		p, err := readPosition(v)
		if err != nil {
			return
		}
		if has&1 != 0 {
			require.Equal(t, binary.BigEndian.Uint64(applied), p.index)
		}
		// What was read is written so that the same is read again.
		var batch db.Batch
		zero := position{configIndex: p.configIndex + 1}
		p.put(&batch, &zero)
		again := values{m: map[string][]byte{}}
		for _, op := range batch.All() {
			again.m[string(op.Key)] = op.Value
		}
		q, err := readPosition(again)
		require.NoError(t, err)
		if has&8 == 0 { // it is written with a configuration then
			require.Empty(t, q.configuration.Servers)
		}
		require.Equal(t, len(p.configuration.Servers), len(q.configuration.Servers))
		p.configuration, q.configuration = raft.Configuration{}, raft.Configuration{}
		require.Equal(t, p, q)
	})
}

func FuzzDecodeConfiguration(f *testing.F) {
	f.Add(raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Nonvoter, ID: "1.1", Address: "a:1"}}}))
	f.Add([]byte{})
	f.Add([]byte{0x91, 0x91, 0x91, 0x91})
	f.Add([]byte{0x81, 0xa7, 'S', 'e', 'r', 'v', 'e', 'r', 's', 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x81, 0xd9, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeConfiguration(b)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(c.Servers), len(b), "no length gets memory")
		again, err := decodeConfiguration(raft.EncodeConfiguration(c))
		require.NoError(t, err)
		require.Equal(t, len(c.Servers), len(again.Servers))
		for i := range c.Servers {
			require.Equal(t, c.Servers[i], again.Servers[i])
		}
	})
}
