(module
  (import "heddle" "memory" (memory 1 65536 shared))
  (global $scratch (mut i32) (i32.const 0))
  (func $tile (param $a i32) (param $b i32) (param $c i32) (param $n i32) (param $gridX i32) (param $gridY i32) (param $gridZ i32) (param $start i32) (param $end i32)
    (local $scratch i32)
    (local $blockX i32)
    (local $sums_0 v128)
    (local $sums_1 v128)
    (local $sums_2 v128)
    (local $sums_3 v128)
    (local $sums_4 v128)
    (local $sums_5 v128)
    (local $sums_6 v128)
    (local $sums_7 v128)
    (local $pointer i32)
    (local $pointer.1 i32)
    (local $k i32)
    (local $left v128)
    (local $right v128)
    (local $x v128)
    (local $x.1 v128)
    (local $x.2 v128)
    (local $x.3 v128)
    (local $shared i32)
    local.get $start
    local.get $end
    i32.lt_u
    if $if
      global.get 0
      local.set $scratch
      local.get $start
      local.get $gridX
      i32.rem_u
      local.set $blockX
      loop $blocks
        block $return
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_0
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_1
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_2
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_3
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_4
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_5
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_6
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_7
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_0
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_1
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_2
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_3
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_4
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_5
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_6
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sums_7
          local.get $b
          i32.const 0
          i32.add
          local.set $pointer
          local.get $a
          i32.const 0
          i32.add
          local.set $pointer.1
          i32.const 0
          local.set $k
          local.get $k
          local.get $n
          i32.lt_s
          if $if.1
            block $exit
              loop $loop
                block $next
                  local.get $pointer
                  v128.load
                  local.set $left
                  local.get $pointer
                  v128.load offset=16
                  local.set $right
                  local.get $pointer.1
                  v128.load32_splat
                  local.set $x
                  local.get $x
                  local.get $left
                  local.get $sums_0
                  f32x4.relaxed_madd
                  local.set $sums_0
                  local.get $x
                  local.get $right
                  local.get $sums_1
                  f32x4.relaxed_madd
                  local.set $sums_1
                  local.get $pointer.1
                  v128.load32_splat offset=4
                  local.set $x.1
                  local.get $x.1
                  local.get $left
                  local.get $sums_2
                  f32x4.relaxed_madd
                  local.set $sums_2
                  local.get $x.1
                  local.get $right
                  local.get $sums_3
                  f32x4.relaxed_madd
                  local.set $sums_3
                  local.get $pointer.1
                  v128.load32_splat offset=8
                  local.set $x.2
                  local.get $x.2
                  local.get $left
                  local.get $sums_4
                  f32x4.relaxed_madd
                  local.set $sums_4
                  local.get $x.2
                  local.get $right
                  local.get $sums_5
                  f32x4.relaxed_madd
                  local.set $sums_5
                  local.get $pointer.1
                  v128.load32_splat offset=12
                  local.set $x.3
                  local.get $x.3
                  local.get $left
                  local.get $sums_6
                  f32x4.relaxed_madd
                  local.set $sums_6
                  local.get $x.3
                  local.get $right
                  local.get $sums_7
                  f32x4.relaxed_madd
                  local.set $sums_7
                  local.get $pointer
                  i32.const 32
                  i32.add
                  local.set $pointer
                  local.get $pointer.1
                  i32.const 16
                  i32.add
                  local.set $pointer.1
                end
                local.get $k
                i32.const 1
                i32.add
                local.set $k
                local.get $k
                local.get $n
                i32.lt_s
                br_if $loop
              end
            end
          end
          local.get $c
          local.get $blockX
          i32.const 7
          i32.shl
          i32.add
          local.set $shared
          local.get $shared
          local.get $sums_0
          v128.store
          local.get $shared
          local.get $sums_1
          v128.store offset=16
          local.get $shared
          local.get $sums_2
          v128.store offset=32
          local.get $shared
          local.get $sums_3
          v128.store offset=48
          local.get $shared
          local.get $sums_4
          v128.store offset=64
          local.get $shared
          local.get $sums_5
          v128.store offset=80
          local.get $shared
          local.get $sums_6
          v128.store offset=96
          local.get $shared
          local.get $sums_7
          v128.store offset=112
        end
        local.get $start
        i32.const 1
        i32.add
        local.set $start
        local.get $blockX
        i32.const 1
        i32.add
        local.tee $blockX
        local.get $gridX
        i32.eq
        if $if.2
          i32.const 0
          local.set $blockX
        end
        local.get $start
        local.get $end
        i32.lt_u
        br_if $blocks
      end
    end))
