(* The regularized minimum: weights in the simplex, any regularizer (docs/theory/surrogates.md). *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Surrogate.
Variables (F : realFieldType) (k : nat).
Implicit Types (r w : 'I_k -> F).

Definition weights w : Prop := (forall j, 0 <= w j) /\ \sum_j w j = 1.
Definition value w r : F := \sum_j w j * r j.

(* Weights that minimize <w, r> + tau Omega(w) over the simplex. *)
Definition optimal (Omega : ('I_k -> F) -> F) tau r w : Prop :=
  weights w /\ forall v, weights v -> value w r + tau * Omega w <= value v r + tau * Omega v.

(* Whatever chose the weights, the surrogate is never below the minimum. *)
Theorem surrogate_upper_bound w r a :
  weights w -> (forall j, r a <= r j) -> r a <= value w r.
Proof.
move=> [hw hs] ha; rewrite -[r a]mul1r -hs mulr_suml; apply: ler_sum => j _.
by apply: ler_wpmul2l.
Qed.

(* For every regularizer, convex or not, and every choice of minimizers. *)
Theorem tau_monotone Omega tau1 tau2 r w1 w2 : 0 < tau1 -> tau1 < tau2 ->
  optimal Omega tau1 r w1 -> optimal Omega tau2 r w2 -> value w1 r <= value w2 r.
Proof.
move=> h1 h12 [s1 o1] [s2 o2]; have := o1 _ s2; have := o2 _ s1.
set a := value w1 r; set b := value w2 r; set u := Omega w1; set v := Omega w2 => e2 e1.
have huv : v <= u.
  have f1 : 0 <= (b - a) + tau1 * (v - u).
    by move: e1; rewrite -subr_ge0 opprD addrACA -mulrBr.
  have f2 : 0 <= (a - b) + tau2 * (u - v).
    by move: e2; rewrite -subr_ge0 opprD addrACA -mulrBr.
  have := addr_ge0 f1 f2; rewrite addrACA -[b - a]opprB addNr add0r -[v - u]opprB mulrN.
  by rewrite addrC -mulrBl pmulr_rge0 ?subr_ge0 // subr_gt0.
have : a + tau1 * u <= b + tau1 * u.
  by apply: le_trans e1 _; rewrite ler_add2l ler_pmul2l.
by rewrite ler_add2r.
Qed.

End Surrogate.
