package node

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/vfs"
)

func testMap() *Map {
	return &Map{Version: 7, Cluster: "c", Groups: 4, Replicas: 3, Nodes: []Member{
		{ID: "1", Addr: "h1:1", Incarnation: 1}, {ID: "3", Addr: "h3:1", Zone: "a", Incarnation: 4},
	}}
}

func TestJoinRequestsAreAnsweredByWhatTheMapKnows(t *testing.T) {
	for name, c := range map[string]struct {
		request joinRequest
		answers bool // another node at the known address
		want    Member
		err     error
	}{
		"a new node":                         {joinRequest{ID: "2", Addr: "h2:1"}, false, Member{ID: "2", Addr: "h2:1", Incarnation: 1}, nil},
		"the last new node":                  {joinRequest{ID: "9", Addr: "h9:1", Zone: "b"}, false, Member{ID: "9", Addr: "h9:1", Zone: "b", Incarnation: 1}, nil},
		"a node whose directory was lost":    {joinRequest{ID: "3", Addr: "h3:1", Zone: "a"}, true, Member{ID: "3", Addr: "h3:1", Zone: "a", Incarnation: 5}, nil},
		"one that comes back elsewhere":      {joinRequest{ID: "3", Addr: "h4:1"}, false, Member{ID: "3", Addr: "h4:1", Incarnation: 5}, nil},
		"one whose ID is in use":             {joinRequest{ID: "3", Addr: "h4:1"}, true, Member{}, errIDInUse},
		"a known node with a new address":    {joinRequest{Cluster: "c", ID: "3", Addr: "h4:1", Zone: "b", Incarnation: 4}, false, Member{ID: "3", Addr: "h4:1", Zone: "b", Incarnation: 4}, nil},
		"one of two with one directory":      {joinRequest{Cluster: "c", ID: "3", Addr: "h4:1", Incarnation: 4}, true, Member{}, errIDInUse},
		"an earlier incarnation":             {joinRequest{Cluster: "c", ID: "3", Addr: "h3:1", Incarnation: 3}, false, Member{}, errIDInUse},
		"a node of another cluster":          {joinRequest{Cluster: "d", ID: "2", Addr: "h2:1"}, false, Member{}, errOtherCluster},
		"a node that was removed":            {joinRequest{Cluster: "c", ID: "2", Addr: "h2:1", Incarnation: 1}, false, Member{}, ErrRemoved},
		"a removed node without its log":     {joinRequest{Cluster: "c", ID: "2", Addr: "h2:1"}, false, Member{}, ErrRemoved},
		"the same node, unchanged":           {joinRequest{Cluster: "c", ID: "3", Addr: "h3:1", Zone: "a", Incarnation: 4}, false, testMap().Nodes[1], nil},
		"a known node with the same address": {joinRequest{ID: "1", Addr: "h1:1"}, false, Member{ID: "1", Addr: "h1:1", Incarnation: 2}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := testMap()
			next, got, err := m.admit(c.request, func(string) bool { return c.answers })
			require.ErrorIs(t, err, c.err)
			require.Equal(t, testMap(), m, "a map never changes")
			if err != nil {
				return
			}
			require.Equal(t, c.want, got)
			found, _ := next.Find(c.want.ID)
			require.Equal(t, c.want, found)
			if found == func() Member { old, _ := m.Find(c.want.ID); return old }() {
				require.Same(t, m, next)
			} else {
				require.EqualValues(t, 8, next.Version)
			}
			_, err = parseMap(next.encode())
			require.NoError(t, err)
		})
	}
}

// A removed node may come back twice: with an empty directory and, on another disk, with its old one. Then they must
// not have the same name in raft.
func TestANodeThatReturnsAfterItsRemovalIsAnotherServer(t *testing.T) {
	m := testMap().without("3").without("1")
	m, back, err := m.admit(joinRequest{ID: "3", Addr: "h3:1"}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 5, back.Incarnation)
	m, err = parseMap(m.encode())
	require.NoError(t, err)
	_, _, err = m.admit(joinRequest{Cluster: "c", ID: "3", Addr: "h4:1", Incarnation: 4}, nil)
	require.ErrorIs(t, err, errIDInUse)
	require.False(t, m.hasServer("3.4"))
}

func TestIDsThatCannotBePartsOfServersAreRefused(t *testing.T) {
	for _, id := range []kv.NodeID{"", "a.b", "a b", "ä", kv.NodeID(make([]byte, 65))} {
		require.False(t, id.Valid())
		_, _, err := testMap().admit(joinRequest{ID: id}, nil)
		require.Error(t, err)
	}
	require.True(t, kv.NodeID("node-1_B").Valid())
	require.Equal(t, kv.NodeID("node-1"), nodeOf(serverName("node-1", 12)))
}

func TestAnOldIncarnationIsNotInTheMap(t *testing.T) {
	require.True(t, testMap().hasServer("3.4"))
	for _, server := range []string{"3.3", "3", "2.1", ""} {
		require.False(t, testMap().hasServer(server))
	}
}

func TestTheNewestMapWins(t *testing.T) {
	a := newAtlas()
	require.True(t, a.learn(testMap()))
	require.False(t, a.learn(testMap()))
	require.True(t, a.learn(testMap().without("1")))
	require.False(t, a.learn(testMap()))
	other := testMap()
	other.Cluster, other.Version = "d", 100
	require.False(t, a.learn(other), "a map of another cluster")
	require.Len(t, a.chart().Nodes, 1)
	require.Empty(t, a.addr("1.1"))
	require.Equal(t, "h3:1", a.addr("3.4"))
}

func TestAnIdentityIsReadAsItWasWritten(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, vfs.MkdirAllSynced(mem, "d"))
	id, err := readIdentity(mem, "d")
	require.NoError(t, err)
	require.Nil(t, id)
	want := &identity{Cluster: "c", ID: "1", Incarnation: 2, Hosted: []kv.GroupID{0, 3}, Map: testMap()}
	for range 2 {
		want.Incarnation++
		require.NoError(t, want.write(mem, "d"))
		got, err := readIdentity(mem.Crash(), "d")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.NoError(t, files.RemoveAll(mem, "d"))
	_, err = mem.Lstat("d")
	require.Error(t, err)
}

func FuzzParseMap(f *testing.F) {
	f.Add(testMap().encode())
	f.Add([]byte(`{"groups":1,"replicas":1,"nodes":[{"id":"b"},{"id":"a"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseMap(text)
		if err != nil {
			return
		}
		again, err := parseMap(m.encode())
		require.NoError(t, err)
		require.Equal(t, m.encode(), again.encode())
	})
}

func FuzzParseIdentity(f *testing.F) {
	text, err := json.Marshal(&identity{Format: 1, Cluster: "c", ID: "1", Incarnation: 2, Map: testMap()})
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		if id, err := parseIdentity(text); err == nil {
			require.True(t, id.ID.Valid())
			require.NotZero(t, id.Incarnation)
		}
	})
}

func TestAnAddressThatANodeSaysCountsUntilTheMapHasAnother(t *testing.T) {
	a := newAtlas()
	m := (&Map{Version: 1, Cluster: "c", Groups: 1, Replicas: 3}).with(Member{ID: "1", Addr: "old:1", Incarnation: 2})
	require.True(t, a.learn(m))
	a.greet(Member{ID: "1", Addr: "other:1", Incarnation: 1})
	a.greet(Member{ID: "9", Addr: "stranger:1", Incarnation: 1})
	require.Equal(t, "old:1", a.addr("1.2"), "what another incarnation says does not count")
	a.greet(Member{ID: "1", Addr: "new:1", Incarnation: 2})
	require.Equal(t, "new:1", a.addr("1.2"))
	require.Empty(t, a.addr("1.1"))
	require.True(t, a.learn(m.with(Member{ID: "1", Addr: "newest:1", Incarnation: 2})))
	require.Equal(t, "newest:1", a.addr("1.2"))
	a.greet(Member{ID: "1", Addr: "newest:1", Incarnation: 2})
	require.Empty(t, a.moved)
}
