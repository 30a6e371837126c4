package postgres

import (
	"sync"
	"time"
)

// known is what is known of tables before they are looked at.
type known struct {
	seen  map[tableName]*tableInfo // not asked for again
	homes map[tableName]tableName  // where those are that a setting names without a schema
}

// homes gives the tables of plans by the names that settings have for them.
func homes(plans []*plan) map[tableName]tableName {
	m := map[tableName]tableName{}
	for _, p := range plans {
		m[p.info.name] = p.info.at
	}
	return m
}

// seen is what the check of the sink has seen of its tables.
type seen struct {
	mu     sync.Mutex
	at     time.Time
	tables map[tableName]*tableInfo
}

// seenFor is how long that is good for a task that begins. A table that is altered
// meanwhile is looked at again by its first transaction.
const seenFor = 10 * time.Second

func (s *seen) keep(plans []*plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.tables = time.Now(), map[tableName]*tableInfo{}
	for _, p := range plans {
		s.tables[p.info.name] = p.info
	}
}

// recent is nil where the check is too long ago.
func (s *seen) recent() map[tableName]*tableInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) > seenFor {
		return nil
	}
	return s.tables
}
