(* L2: weights in threshold form, which the projection of -r/tau onto the simplex has
   (docs/theory/surrogates.md). That it has this form is not proved here. *)
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

(* All other entries tau/2 above the least. *)
Definition extremal tau (a j : 'I_k) : F := tau / 2%:R - tau / 2%:R * (j == a)%:R.
Definition extremal_weights (a j : 'I_k) : F := (j == a)%:R / 2%:R + (2%:R * k%:R)^-1.

(* The bound is reached, for every k and tau: the weights exist, and the gap is tau (k-1)/(4k). *)
Theorem sharp_gap_l2_attained tau a : 0 < tau ->
  [/\ l2_weights tau (extremal tau a) (extremal_weights a),
      forall l, extremal tau a a <= extremal tau a l &
      value (extremal_weights a) (extremal tau a) - extremal tau a a
      = tau * ((k%:R - 1) / (4%:R * k%:R))].
Proof.
move=> ht.
have hk : (0 : F) < k%:R by rewrite ltr0n; apply: leq_ltn_trans (ltn_ord a).
have h2 : (2%:R : F) != 0 by rewrite pnatr_eq0.
have hc : (0 : F) <= (2%:R * k%:R)^-1 by rewrite invr_ge0 mulr_ge0 ?ler0n.
have kc : k%:R * (2%:R * k%:R)^-1 = 2%:R^-1 :> F.
  by rewrite invfM mulrCA divff ?mulr1 // gt_eqF.
have ea : extremal tau a a = 0 by rewrite /extremal eqxx mulr1 subrr.
have sw : \sum_j extremal_weights a j = 1.
  rewrite /extremal_weights big_split /= -mulr_suml.
  rewrite -[X in X / _](eq_bigr _ (fun j _ => mul1r _)) sum_at mul1r.
  by rewrite sumr_const card_ord -[_ *+ k]mulr_natl kc -[2%:R^-1]mul1r -splitr.
split.
- split; first split=> // [j]; first by rewrite addr_ge0 // mulr_ge0 ?ler0n ?invr_ge0 ?ler0n.
  exists (2%:R^-1 + (2%:R * k%:R)^-1) => j; rewrite /extremal_weights /extremal.
  have ht0 : tau != 0 by rewrite gt_eqF.
  case: eqP => _; rewrite /= ?mulr1n ?mulr0n.
    by rewrite mulr1 subrr mul0r subr0 mul1r max_r // addr_ge0 // invr_ge0 ler0n.
  rewrite mulr0 subr0 mul0r add0r (_ : tau / 2%:R / tau = 2%:R^-1) ?[_ + _ - _]addrAC ?subrr ?add0r ?max_r //.
  by rewrite mulrAC divff // mul1r.
- move=> l; rewrite ea /extremal -{1}[tau / _]mulr1 -mulrBr mulr_ge0 ?divr_ge0 ?ler0n ?(ltW ht) //.
  by case: eqP => _; rewrite /= ?mulr1n ?mulr0n ?subrr ?subr0 ?ler01.
rewrite ea subr0 /value.
rewrite (eq_bigr (fun j => extremal_weights a j * (tau / 2%:R)
    - extremal_weights a j * (tau / 2%:R) * (j == a)%:R)) => [|j _]; last by rewrite [extremal tau a j]/extremal mulrBr -!mulrA.
rewrite sumrB sum_at -mulr_suml sw -mulrBl /extremal_weights eqxx mul1r.
rewrite mulrCA; congr (_ * _).
have -> : 1 - (2%:R^-1 + (2%:R * k%:R)^-1) = (k%:R - 1) / (2%:R * k%:R) :> F.
  rewrite mulrBl mul1r kc opprD addrA; congr (_ - _).
  by rewrite -[2%:R^-1]mul1r {1}[1](splitr 1) addrK.
rewrite -[LHS]mulrA; congr (_ * _); rewrite -invfM; congr (_^-1); rewrite mulrAC -(natrM _ 2 2) //.
Qed.

End Simplex.
