(module
  (import "heddle" "memory" (memory 1 65536 shared))
  (global $scratch (mut i32) (i32.const 0))
  (func $softmax (param $x i32) (param $y i32) (param $columns i32) (param $gridX i32) (param $gridY i32) (param $gridZ i32) (param $start i32) (param $end i32)
    (local $scratch i32)
    (local $blockX i32)
    (local $row i32)
    (local $top v128)
    (local $shared i32)
    (local $fixed i32)
    (local $pointer i32)
    (local $j i32)
    (local $v v128)
    (local $largest f32)
    (local $sum v128)
    (local $fixed.1 i32)
    (local $fixed.2 v128)
    (local $fixed.3 i32)
    (local $pointer.1 i32)
    (local $pointer.2 i32)
    (local $j.1 i32)
    (local $shared.1 v128)
    (local $shared.2 v128)
    (local $shared.3 v128)
    (local $shared.4 v128)
    (local $shared.5 v128)
    (local $shared.6 v128)
    (local $shared.7 v128)
    (local $shared.8 v128)
    (local $e v128)
    (local $scale f32)
    (local $fixed.4 i32)
    (local $fixed.5 v128)
    (local $pointer.3 i32)
    (local $j.2 i32)
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
          local.get $blockX
          local.get $columns
          i32.mul
          local.set $row
          v128.const i32x4 0xff61b1e6 0xff61b1e6 0xff61b1e6 0xff61b1e6
          local.set $top
          local.get $row
          i32.const 2
          i32.shl
          local.set $shared
          local.get $x
          local.get $shared
          i32.add
          local.set $fixed
          local.get $fixed
          i32.const 0
          i32.add
          local.set $pointer
          i32.const 0
          local.set $j
          local.get $j
          local.get $columns
          i32.lt_s
          if $if.1
            block $exit
              loop $loop
                block $next
                  local.get $pointer
                  v128.load
                  local.set $v
                  local.get $top
                  local.get $v
                  f32x4.pmax
                  local.set $top
                  local.get $pointer
                  i32.const 16
                  i32.add
                  local.set $pointer
                end
                local.get $j
                i32.const 4
                i32.add
                local.set $j
                local.get $j
                local.get $columns
                i32.lt_s
                br_if $loop
              end
            end
          end
          local.get $top
          f32x4.extract_lane 0
          local.get $top
          f32x4.extract_lane 1
          f32.max
          local.get $top
          f32x4.extract_lane 2
          local.get $top
          f32x4.extract_lane 3
          f32.max
          f32.max
          local.set $largest
          v128.const i32x4 0x00000000 0x00000000 0x00000000 0x00000000
          local.set $sum
          local.get $fixed
          local.set $fixed.1
          local.get $largest
          f32x4.splat
          local.set $fixed.2
          local.get $y
          local.get $shared
          i32.add
          local.set $fixed.3
          local.get $fixed.1
          i32.const 0
          i32.add
          local.set $pointer.1
          local.get $fixed.3
          i32.const 0
          i32.add
          local.set $pointer.2
          i32.const 0
          local.set $j.1
          local.get $j.1
          local.get $columns
          i32.lt_s
          if $if.2
            block $exit.1
              loop $loop.1
                block $next.1
                  local.get $pointer.1
                  v128.load
                  local.get $fixed.2
                  f32x4.sub
                  local.set $shared.1
                  local.get $shared.1
                  v128.const i32x4 0x42b20000 0x42b20000 0x42b20000 0x42b20000
                  f32x4.pmin
                  local.set $shared.2
                  local.get $shared.2
                  v128.const i32x4 0xc2d20000 0xc2d20000 0xc2d20000 0xc2d20000
                  f32x4.pmax
                  local.set $shared.3
                  local.get $shared.3
                  v128.const i32x4 0x3fb8aa3b 0x3fb8aa3b 0x3fb8aa3b 0x3fb8aa3b
                  v128.const i32x4 0x4b400000 0x4b400000 0x4b400000 0x4b400000
                  f32x4.relaxed_madd
                  local.set $shared.4
                  local.get $shared.4
                  v128.const i32x4 0x4b400000 0x4b400000 0x4b400000 0x4b400000
                  f32x4.sub
                  local.set $shared.5
                  local.get $shared.5
                  v128.const i32x4 0x395e8083 0x395e8083 0x395e8083 0x395e8083
                  local.get $shared.5
                  v128.const i32x4 0xbf318000 0xbf318000 0xbf318000 0xbf318000
                  local.get $shared.3
                  f32x4.relaxed_madd
                  f32x4.relaxed_madd
                  local.set $shared.6
                  local.get $shared.4
                  v128.const i32x4 0x4b400000 0x4b400000 0x4b400000 0x4b400000
                  i32x4.sub
                  local.set $shared.7
                  local.get $shared.7
                  i32.const 1
                  i32x4.shr_s
                  local.set $shared.8
                  v128.const i32x4 0x3ab6887e 0x3ab6887e 0x3ab6887e 0x3ab6887e
                  local.get $shared.6
                  v128.const i32x4 0x3c0905b1 0x3c0905b1 0x3c0905b1 0x3c0905b1
                  f32x4.relaxed_madd
                  local.get $shared.6
                  v128.const i32x4 0x3d2aaa8d 0x3d2aaa8d 0x3d2aaa8d 0x3d2aaa8d
                  f32x4.relaxed_madd
                  local.get $shared.6
                  v128.const i32x4 0x3e2aaa6f 0x3e2aaa6f 0x3e2aaa6f 0x3e2aaa6f
                  f32x4.relaxed_madd
                  local.get $shared.6
                  v128.const i32x4 0x3f000000 0x3f000000 0x3f000000 0x3f000000
                  f32x4.relaxed_madd
                  local.get $shared.6
                  local.get $shared.6
                  f32x4.mul
                  local.get $shared.6
                  f32x4.relaxed_madd
                  v128.const i32x4 0x3f800000 0x3f800000 0x3f800000 0x3f800000
                  f32x4.add
                  local.get $shared.8
                  v128.const i32x4 0x0000007f 0x0000007f 0x0000007f 0x0000007f
                  i32x4.add
                  i32.const 23
                  i32x4.shl
                  f32x4.mul
                  local.get $shared.7
                  local.get $shared.8
                  i32x4.sub
                  v128.const i32x4 0x0000007f 0x0000007f 0x0000007f 0x0000007f
                  i32x4.add
                  i32.const 23
                  i32x4.shl
                  f32x4.mul
                  local.set $e
                  local.get $pointer.2
                  local.get $e
                  v128.store
                  local.get $sum
                  local.get $e
                  f32x4.add
                  local.set $sum
                  local.get $pointer.1
                  i32.const 16
                  i32.add
                  local.set $pointer.1
                  local.get $pointer.2
                  i32.const 16
                  i32.add
                  local.set $pointer.2
                end
                local.get $j.1
                i32.const 4
                i32.add
                local.set $j.1
                local.get $j.1
                local.get $columns
                i32.lt_s
                br_if $loop.1
              end
            end
          end
          f32.const 1
          local.get $sum
          f32x4.extract_lane 0
          local.get $sum
          f32x4.extract_lane 1
          f32.add
          local.get $sum
          f32x4.extract_lane 2
          f32.add
          local.get $sum
          f32x4.extract_lane 3
          f32.add
          f32.div
          local.set $scale
          local.get $fixed.3
          local.set $fixed.4
          local.get $scale
          f32x4.splat
          local.set $fixed.5
          local.get $fixed.4
          i32.const 0
          i32.add
          local.set $pointer.3
          i32.const 0
          local.set $j.2
          local.get $j.2
          local.get $columns
          i32.lt_s
          if $if.3
            block $exit.2
              loop $loop.2
                block $next.2
                  local.get $pointer.3
                  local.get $pointer.3
                  v128.load
                  local.get $fixed.5
                  f32x4.mul
                  v128.store
                  local.get $pointer.3
                  i32.const 16
                  i32.add
                  local.set $pointer.3
                end
                local.get $j.2
                i32.const 4
                i32.add
                local.set $j.2
                local.get $j.2
                local.get $columns
                i32.lt_s
                br_if $loop.2
              end
            end
          end
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
        if $if.4
          i32.const 0
          local.set $blockX
        end
        local.get $start
        local.get $end
        i32.lt_u
        br_if $blocks
      end
    end))
