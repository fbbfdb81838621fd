(* L2: the weights are the projection of -r/tau onto the simplex (docs/theory/surrogates.md). *)
From mathcomp Require Import all_ssreflect all_algebra.
From LeanLloyd Require Import surrogate.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Simplex.
Variables (F : realFieldType) (k : nat).
Implicit Types (r w p : 'I_k -> F).

(* The weights of the L2 regularizer, as `verify/oracles/surrogates.py` has them: a threshold,
   and what of it is above r/tau, adding up to one. *)
Definition l2_weights tau r p : Prop :=
  weights p /\ exists lambda, forall j, p j = Num.max 0 (lambda - r j / tau).

(* On the support, r_j - r_a is tau (p_a - p_j). *)
Lemma l2_support tau r p a j : 0 < tau -> l2_weights tau r p -> (forall l, r a <= r l) ->
  p j * (r j - r a) = tau * (p j * (p a - p j)).
Proof.
move=> ht [[hp _] [lambda hl]] ha.
have [hj|hj] := leP (lambda - r j / tau) 0.
  by have := hl j; rewrite max_l // => ->; rewrite !mul0r mulr0.
have ej : r a / tau <= r j / tau by rewrite ler_pmul2r ?invr_gt0.
have ha0 : 0 < lambda - r a / tau by apply: lt_le_trans hj _; rewrite ler_add2l ler_opp2.
have e : p a - p j = (r j - r a) / tau.
  rewrite (hl a) (hl j) !max_r ?ltW // opprB addrC addrA subrK mulrBl //.
by rewrite e mulrCA [tau * _]mulrC divfK // gt_eqF.
Qed.

Theorem l2_gap tau r p a : 0 < tau -> l2_weights tau r p -> (forall l, r a <= r l) ->
  value p r - r a = tau * (p a - \sum_j p j ^+ 2).
Proof.
move=> ht hp ha; have [[_ hs] _] := hp.
rewrite /value -[r a]mul1r -{1}hs mulr_suml -sumrB.
rewrite (eq_bigr (fun j => tau * (p j * p a - p j ^+ 2))) => [|j _].
  by rewrite -mulr_sumr sumrB -mulr_suml hs mul1r.
by rewrite -mulrBr (l2_support _ ht hp ha) mulrBr.
Qed.

Lemma sum_at a (f : 'I_k -> F) : \sum_j f j * (j == a)%:R = f a.
Proof.
rewrite (bigD1 a) //= eqxx mulr1 big1 ?addr0 // => j /negbTE ->; exact: mulr0.
Qed.

(* Completing the square at the weights (k+1)/(2k) and 1/(2k). *)
Lemma weight_less_square p a : weights p ->
  4%:R * (p a - \sum_j p j ^+ 2) <= 1 - k%:R^-1.
Proof.
move=> [_ hs]; set c := k%:R^-1.
have hk : (k%:R : F) != 0 by rewrite pnatr_eq0 -lt0n; apply: leq_ltn_trans (ltn_ord a).
have sc : \sum_(j < k) c = 1 by rewrite sumr_const card_ord -mulr_natl divff.
have s2 : \sum_j p j * ((j == a)%:R + c) = p a + c.
  by rewrite (eq_bigr _ (fun j _ => mulrDr _ _ _)) big_split /= sum_at -mulr_suml hs mul1r.
have s3 : \sum_(j < k) ((j == a)%:R + c) ^+ 2 = 1 + c + (c + c).
  rewrite (eq_bigr (fun j => ((j == a)%:R + c) * (j == a)%:R + ((j == a)%:R * c + c * c))).
    rewrite big_split /= sum_at eqxx big_split /= -mulr_suml -mulr_suml sc mul1r.
    by rewrite -[X in X * c](eq_bigr _ (fun j _ => mul1r _)) sum_at mul1r.
  by move=> j _; rewrite expr2 mulrDr -mulrDl.
have : 0 <= \sum_j (2%:R * p j - ((j == a)%:R + c)) ^+ 2 by apply: sumr_ge0 => j _; apply: sqr_ge0.
rewrite (eq_bigr (fun j => 4%:R * (p j ^+ 2 - p j * ((j == a)%:R + c)) + ((j == a)%:R + c) ^+ 2)).
  rewrite big_split /= -mulr_sumr sumrB s2 s3 => h.
  rewrite -subr_ge0; suff -> : 1 - c - 4%:R * (p a - \sum_j p j ^+ 2)
    = 4%:R * (\sum_j p j ^+ 2 - (p a + c)) + (1 + c + (c + c)) by [].
  set S := \sum_j _.
  have -> : S - (p a + c) = S - p a - c by rewrite opprD addrA.
  rewrite -mulrN opprB; move: (S - p a) => D; rewrite mulrBr.
  have -> : 4%:R * c = c + (c + c) + c by rewrite mulr_natl !mulrS mulr0n addr0 !addrA.
  rewrite [LHS]addrC -[RHS]addrA; congr (_ + _).
  by rewrite -(addrA 1 c); move: (c + (c + c)) => u; rewrite opprD [RHS]addrC addrA addrK.
move=> j _; rewrite sqrrB exprMn -natrX mulrBr -!mulrA -[_ *+ 2]mulr_natl mulrA -natrM //.
Qed.

(* The gap is at most tau (k-1)/(4k), for every r. *)
Theorem sharp_gap_l2 tau r p a : 0 < tau -> l2_weights tau r p -> (forall l, r a <= r l) ->
  value p r - r a <= tau * ((k%:R - 1) / (4%:R * k%:R)).
Proof.
move=> ht hp ha; rewrite (l2_gap ht hp ha) ler_pmul2l //.
have hk : (0 : F) < k%:R by rewrite ltr0n; apply: leq_ltn_trans (ltn_ord a).
have h4 : (0 : F) < 4%:R * k%:R by rewrite mulr_gt0 // ltr0n.
rewrite ler_pdivl_mulr // mulrA [_ * 4%:R]mulrC.
have := weight_less_square a (proj1 hp); rewrite -(ler_pmul2r hk) => h.
by apply: le_trans h _; rewrite mulrBl mul1r mulVf ?gt_eqF.
Qed.

End Simplex.
