//go:build services

package acceptance

import (
	"testing"

	"exactly/internal/services"
	"exactly/test/rig"
)

// TestKillsOnThreeBrokers: workers are killed at random and frozen past their
// session, a broker is killed and comes back, and every sink ends right, with
// nothing undecided ever seen.
func TestKillsOnThreeBrokers(t *testing.T) {
	c := services.Kafka(t, three)
	p := rig.New(t, c, rig.Shape{Tasks: 4, Restart: "{ max: 1000, delay: 50ms, max_delay: 1s }"})
	rig.Storm{
		Payments: rig.Sized(t, int64(20_000), 100_000), Rate: rig.Sized(t, 400.0, 1000),
		Kills: rig.Sized(t, 12, 50), Zombies: rig.Sized(t, 1, 4), Workers: 3, BrokerKills: rig.Sized(t, 1, 4),
	}.Over(p)
}

// TestKillsWithTransactionVersion1: brokers on which AddOffsetsToTxn is needed
// and producer epochs do not rise with each transaction (before KIP-890).
func TestKillsWithTransactionVersion1(t *testing.T) {
	c := services.Kafka(t, services.Options{Nodes: 3, TransactionVersion: 1, Own: true})
	p := rig.New(t, c, rig.Shape{Tasks: 4, Restart: "{ max: 1000, delay: 50ms, max_delay: 1s }"})
	rig.Storm{
		Payments: rig.Sized(t, int64(5_000), 100_000), Rate: rig.Sized(t, 300.0, 1000),
		Kills: rig.Sized(t, 5, 50), Zombies: 1, Workers: 2, BrokerKills: 1,
	}.Over(p)
}
