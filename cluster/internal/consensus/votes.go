package consensus

import "github.com/hashicorp/raft"

// voteStore is raft's stable store. Raft stores the term of a vote, then the candidate. If it fails or the node ends
// between, the store would have the vote for the candidate of an earlier term in the new term, and raft grants that one
// its vote again without a look at its log. So the candidate is stored first: raft knows a newer term by then, and
// considers no vote of the term that has the wrong candidate.
type voteStore struct {
	raft.StableStore
	term uint64 // of the vote that raft stores
}

const keyVoteTerm, keyVoteCandidate = "LastVoteTerm", "LastVoteCand"

func (s *voteStore) SetUint64(key []byte, n uint64) error {
	if string(key) == keyVoteTerm {
		s.term = n
		return nil
	}
	return s.StableStore.SetUint64(key, n)
}

func (s *voteStore) Set(key, value []byte) error {
	err := s.StableStore.Set(key, value)
	if err == nil && string(key) == keyVoteCandidate {
		return s.StableStore.SetUint64([]byte(keyVoteTerm), s.term)
	}
	return err
}
